"""The published sequential way, written to be read: the yardstick for accuracy and for speed."""
