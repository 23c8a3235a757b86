"""The worktree as a tree of git, byte for byte, also where `git add` would lose something."""
