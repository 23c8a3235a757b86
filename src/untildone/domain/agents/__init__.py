"""One agent call: prompt, promise, trouble, learnings."""
