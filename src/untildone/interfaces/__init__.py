"""Windows on the loop: command line, console, JSON lines."""
