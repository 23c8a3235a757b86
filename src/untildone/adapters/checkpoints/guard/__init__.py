"""Which files stay out of git: secrets, large ones, those behind a filter."""
