"""The agents' own records: session files and databases, read and never written."""
