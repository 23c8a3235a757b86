"""What is written down: journal, state file, inbox, lock, operations."""
