"""Checks of the project: what runs, what failed before, which files are protected."""
