"""The state of the machine, the agents and what runs leave behind."""
