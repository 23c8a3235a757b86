"""What the agent does to files and to the record of its calls."""

import fcntl
import json
import os
import re
import subprocess
import time


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def git(*args):
    done = subprocess.run(["git", *args], capture_output=True, text=True, check=False)
    return done.stdout.strip()


class Book:
    """The record of all calls; who holds its lock decides what the next call is."""

    def __init__(self, root):
        self.file = open(f"{root}/calls.jsonl", "a+", encoding="utf-8")  # noqa: SIM115
        fcntl.flock(self.file, fcntl.LOCK_EX)
        self.file.seek(0)
        self.calls = [json.loads(line) for line in self.file]

    def add(self, **facts):
        self.file.write(json.dumps({"at": time.time(), "pid": os.getpid(), **facts}) + "\n")
        self.file.flush()

    def close(self):
        self.file.close()


class Hands:
    """Works on the package, one marked block for each function."""

    def __init__(self, config):
        self.config = config

    def put(self, story, source):
        """Write the block of a story anew and make the function public."""
        path = f"kit/{story['module']}.py"
        write(path, self.without(path, story["name"]) + f"\n\n# --- {story['name']}\n{source}")
        text = read("kit/__init__.py")
        line = f'    "{story["module"]}.{story["name"]}",\n'
        if line not in text:
            write("kit/__init__.py", text.replace("]\n", line + "]\n"))

    def without(self, path, name):
        """The text of a module without the block of one function."""
        blocks = re.split(r"(?m)^(?=# --- )", read(path))
        return "".join(b for b in blocks if b.split("\n")[0] != f"# --- {name}").rstrip("\n") + "\n"

    def has(self, story):
        """Whether the whole function stands in the tree."""
        return story["source"] in read(f"kit/{story['module']}.py")

    def tick(self, story):
        """Tick the box in the task file, if that is the agent's duty in this loop."""
        path = self.config.get("ticks")
        if path:
            text = read(path)
            write(path, text.replace(f"- [ ] {story['key']} ", f"- [x] {story['key']} "))

    def commit(self, story):
        """Commit the own files, if the prompt of this loop asks for it."""
        if self.config.get("commits"):
            files = [f"kit/{story['module']}.py", "kit/__init__.py", self.config.get("ticks")]
            git("add", "--", *[name for name in files if name])
            git("commit", "-q", "-m", story["title"])
