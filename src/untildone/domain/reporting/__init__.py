"""What is told of a run: events and the account of a report."""
