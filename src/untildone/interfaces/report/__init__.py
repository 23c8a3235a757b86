"""The report of a run: built once as blocks, shown as Markdown or as HTML."""
