"""Readable reference of the published sequential method, for accuracy and speed."""
