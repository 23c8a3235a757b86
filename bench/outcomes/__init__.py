"""The quality benchmark: a misbehaving agent, forty stories, and who tells the truth."""
