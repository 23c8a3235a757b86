"""Ask the real OpenSpec program about every input and write its answers to `cases.json`.

How the stored answers were made: `npm install @fission-ai/openspec@1.13.2` in an empty folder, then
    python -m tests.corpus.openspec.make_oracle FOLDER/node_modules/.bin/openspec
from the root of this repository, with Node 20. The inputs are `odd_inputs.py` and the files of
`realistic/`; all of them were written for this project. Every input becomes `tasks.md` of a change
of its own in an empty project. Counts are those of `openspec list --json`, the tasks those of
`openspec instructions apply --json`. Inputs are stored as base64, so that no editor or git setting
can touch their bytes.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.corpus.openspec.odd_inputs import all_inputs

HERE = Path(__file__).parent
VERSION = "1.13.2"
QUIET = {"OPENSPEC_TELEMETRY": "0", "DO_NOT_TRACK": "1", "NO_COLOR": "1"}
QUIET["OPENSPEC_NO_UPDATE_CHECK"] = "1"


Answer = dict[str, Any]


def ask(program: str, project: Path, *words: str) -> Answer:
    """The program's answer, which is one JSON document."""
    done = subprocess.run(
        [program, *words], cwd=project, env=os.environ | QUIET, capture_output=True, check=True
    )
    answer: Answer = json.loads(done.stdout)
    return answer


def main(program: str) -> None:
    """Write `cases.json` anew."""
    program = str(Path(program).resolve())
    manifest = Path(program).parent.parent / "package.json"
    if json.loads(manifest.read_bytes())["version"] != VERSION:
        raise SystemExit(f"This needs OpenSpec {VERSION}.")
    inputs = all_inputs()
    for file in sorted((HERE / "realistic").glob("*.md")):
        inputs[f"real-{file.stem}"] = file.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / "openspec").mkdir()
        (project / "openspec/config.yaml").write_text("schema: spec-driven\n")
        for name, data in inputs.items():
            change = project / "openspec/changes" / name
            change.mkdir(parents=True)
            (change / "proposal.md").write_text("## Why\n\nA test.\n")
            (change / "tasks.md").write_bytes(data)

        def apply(name: str) -> Answer:
            return ask(program, project, "instructions", "apply", "--change", name, "--json")

        listed = {c["name"]: c for c in ask(program, project, "list", "--json")["changes"]}
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            applies = dict(zip(inputs, pool.map(apply, inputs), strict=True))
    cases = [
        {
            "name": name,
            "input": base64.b64encode(data).decode(),
            "total": listed[name]["totalTasks"],
            "complete": listed[name]["completedTasks"],
            "progress": applies[name]["progress"],
            "tasks": [[t["description"], t["done"]] for t in applies[name]["tasks"]],
        }
        for name, data in inputs.items()
    ]
    text = json.dumps({"openspec": VERSION, "cases": cases}, indent=1, ensure_ascii=True)
    (HERE / "cases.json").write_text(text + "\n")
    print(f"{len(cases)} cases, OpenSpec {VERSION}")


if __name__ == "__main__":
    main(sys.argv[1])
