"""The misbehaving agent: a program of its own, copied to a scratch folder and called `claude`.

It plays the plan and writes down every call outside the repository. It knows the story by its key
in the prompt or, when the prompt is about all stories, takes the first open box of the task file
and ticks it itself, as a bare loop wants it. Standard library only: it is started often.
"""
