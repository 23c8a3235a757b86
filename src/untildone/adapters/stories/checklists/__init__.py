"""What the formats share whose stories are boxes in Markdown."""
