"""Looking after what is installed, stored and left over."""
