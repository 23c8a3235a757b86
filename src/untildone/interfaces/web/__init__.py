"""`untildone serve`: pages and an API on what the journals of runs tell."""
