"""What `untildone doctor` looks at and mends."""
