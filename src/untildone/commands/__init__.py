"""What each command does, without a word of click or rich."""
