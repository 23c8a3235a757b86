"""Before the first call: from settings to a plan, and everything that is looked at first."""
