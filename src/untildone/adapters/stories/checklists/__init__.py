"""Stories as boxes in Markdown, shared by several formats."""
