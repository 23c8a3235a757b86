"""What is written before a run: the configuration and the stories."""
