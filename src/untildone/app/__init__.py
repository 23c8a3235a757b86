"""Sequencing: drives the machine through the ports, no I/O of its own."""
