"""Writing a plan down: what is done before a run, by a person or by an agent asked for it."""
