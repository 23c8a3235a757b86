"""Checks run by the loop, in the worktree or in a clean checkout."""
