"""Each module wraps one thing of the outside world."""
