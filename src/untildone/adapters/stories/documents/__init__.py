"""What the formats share whose stories carry a state: JSON, YAML, front matter, issue trackers."""
