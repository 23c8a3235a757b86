"""The run, its facts and steps, and the machine that leads from one to the other."""
