"""One module per story format: files in, a StoryBook out; ticks boxes."""
