"""The command line: one small module per command or two, in the groups that `--help` shows."""
