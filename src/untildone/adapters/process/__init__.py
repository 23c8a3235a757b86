"""Starting programs, waiting for them and ending all that they started."""
