"""What an attempt may change outside its files: refs, git settings, other worktrees."""
