"""What can be seen of work that is going on: its log, what it used, where its time goes."""
