"""What can be configured, and where the values come from."""
