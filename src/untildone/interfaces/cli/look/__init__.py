"""How a run stands and what it did."""
