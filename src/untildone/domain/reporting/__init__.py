"""What is told of a run: events, the account of a report, and the fields of the state file."""
