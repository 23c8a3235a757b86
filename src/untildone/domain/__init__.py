"""The rules of the loop: no I/O, no clock, no logging."""
