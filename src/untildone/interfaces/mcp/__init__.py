"""`untildone mcp`: runs for other agents, over the Model Context Protocol."""
