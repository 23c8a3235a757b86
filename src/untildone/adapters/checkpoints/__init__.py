"""One module per way to checkpoint: open, save, revert, close."""
