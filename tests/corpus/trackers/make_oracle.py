"""Ask the real programs: `python -m tests.corpus.trackers.make_oracle FOLDER`.

FOLDER is one in which `npm install task-master-ai backlog.md` was called.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.corpus.trackers.odd_inputs import BACKLOG, TASKMASTER

ANSWERS = Path(__file__).parent / "answers.json"


def _asked(program: Path, root: Path, *args: str) -> Any:
    env = {**os.environ, "HOME": str(root), "NO_COLOR": "1"}
    done = subprocess.run(
        [program, *args], cwd=root, env=env, capture_output=True, timeout=120, check=False
    )
    text = done.stdout.decode()
    try:
        return json.JSONDecoder().raw_decode(text[text.index("{") :])[0]
    except ValueError:
        return None


def _repository(root: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)


def taskmaster(program: Path, text: str) -> Any:
    """Each task's id, status, dependencies and subtasks; null when the program gives up."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _repository(root)
        (root / ".taskmaster/tasks").mkdir(parents=True)
        (root / ".taskmaster/tasks/tasks.json").write_text(text)
        (root / ".taskmaster/state.json").write_text('{"currentTag": "master"}')
        answer = _asked(program, root, "list", "--json", "--with-subtasks")
    if not answer or "tasks" not in answer:
        return None
    return [
        {
            "id": task["id"],
            "title": task["title"],
            "status": task["status"],
            "dependencies": task["dependencies"],
            "subtasks": [[str(sub["id"]), sub["status"]] for sub in task["subtasks"]],
        }
        for task in answer["tasks"]
    ]


def backlog(program: Path, files: dict[str, str]) -> Any:
    """Each task's id, title, status and count of criteria, by id."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _repository(root)
        _asked(program, root, "init", "demo", "--defaults")
        for name, text in files.items():
            number = text.partition("TASK-")[2].split()[0].lower()
            path = root / f"backlog/tasks/task-{number} - {name.replace(' ', '-')}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        answer = _asked(program, root, "task", "list", "--json")
    return {
        task["id"]: [
            task["title"],
            task["status"],
            task["acceptanceCriteriaCompleted"],
            task["acceptanceCriteriaCount"],
        ]
        for task in answer["tasks"]
    }


def main() -> None:
    """Write the answers."""
    programs = Path(sys.argv[1]).resolve() / "node_modules/.bin"
    answers = {
        "taskmaster": {n: taskmaster(programs / "task-master", t) for n, t in TASKMASTER.items()},
        "backlog": backlog(programs / "backlog", BACKLOG),
    }
    ANSWERS.write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
