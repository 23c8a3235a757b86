"""Benchmarks of untildone against floors measured in the same run: `python -m bench`."""
