"""Where work is done: in this process, or in those of a cluster."""
