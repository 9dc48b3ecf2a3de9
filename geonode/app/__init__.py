"""The product as a page on this machine."""
