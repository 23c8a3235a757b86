"""Folders in which lanes work, and how their work lands on the run branch."""
