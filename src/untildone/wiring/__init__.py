"""The composition root: where adapters meet the loop."""
