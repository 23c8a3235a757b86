"""The only door to Temporal: workflows, the worker, and what is asked of the server."""
