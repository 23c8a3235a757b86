"""The git program and its files on disk."""
