"""Looking at runs, live or ended."""
