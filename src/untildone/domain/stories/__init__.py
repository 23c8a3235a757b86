"""Stories, their order, and why one is set aside."""
