"""One module per agent: intent in, argv out; output in, notices and one report out."""
