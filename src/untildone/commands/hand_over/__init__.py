"""Handing a run on: to CI, or to another machine."""
