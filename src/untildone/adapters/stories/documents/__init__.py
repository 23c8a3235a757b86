"""Stories as objects in JSON, YAML or front matter, shared by several formats."""
