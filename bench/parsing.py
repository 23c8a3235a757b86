"""An agent that speaks stream-json: the price of understanding it, and how soon it is shown."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace

from bench.measure import Command, Spent, interleave, spend
from bench.result import Result, Rule, Wall
from bench.scene import Scene, Stage, build

SESSION = "6f0f6a9e-0000-4000-8000-000000000000"
SMALL = 10_000
ROUNDS = 5


def stream_200mb(stage: Stage, size: int | None = None) -> list[Result]:
    """CPU of the loop process alone for a long stream against `json.loads` on each of its lines."""
    size = size or (20_000_000 if stage.quick else 200_000_000)
    scene = build(stage.folder / "parsing", 100, {"one": 1}, stage.env)
    files = {amount: stage.folder / f"stream-{amount}.jsonl" for amount in (SMALL, size)}
    for amount, path in files.items():
        with path.open("wb") as file:
            file.writelines(_stream(amount))

    def subject(amount: int) -> Spent:
        return _run(stage, scene, f"exec cat '{files[amount]}'")

    def floor(amount: int) -> Spent:
        argv = stage.programs.loads(files[amount])
        return spend(Command(argv, scene.work, stage.env))

    rounds = 1 if stage.quick else 3
    bare_small, small, bare, long = interleave(
        rounds,
        lambda: floor(SMALL),
        lambda: subject(SMALL),
        lambda: floor(size),
        lambda: subject(size),
    )
    late = min(_lateness(stage, scene) for _ in range(ROUNDS))
    note = f"{size / 1e6:.0f} MB, best of {rounds}; CPU of the process alone minus a short stream's"
    shown = f"from the agent's write to the event on standard output, best of {ROUNDS}"
    return [
        Result(
            "stream_200mb",
            long.alone - small.alone,
            bare.alone - bare_small.alone,
            "s",
            Rule.RATIO,
            3.0,
            Wall(long.wall - small.wall, bare.wall - bare_small.wall),
            note,
        ),
        Result("stream_200mb, first line", late * 1000, None, "ms", Rule.BELOW, 100.0, note=shown),
    ]


def _run(stage: Stage, scene: Scene, body: str, *args: str) -> Spent:
    scene.reset()
    spent = spend(_command(stage, scene, body, *args))
    scene.expect_checkpoints("one")
    return spent


def _command(stage: Stage, scene: Scene, body: str, *args: str) -> Command:
    programs = stage.folder / "claude"
    programs.mkdir(exist_ok=True)
    (programs / "claude").write_text(f"#!/bin/sh\ncat > /dev/null\n{body}\n")
    (programs / "claude").chmod(0o755)
    flags = ("--agent", "claude", "--on-complete", "keep", *args)
    command = stage.untildone(scene, "run", "one", *flags)
    return replace(command, env={**stage.env, "PATH": f"{programs}:{stage.env['PATH']}"})


def _lateness(stage: Stage, scene: Scene) -> float:
    """Seconds from the moment an agent says something until its event is on standard output."""
    heard = [0.0]
    said = stage.folder / "said"

    def hear(_: int, row: bytes) -> None:
        if b'"agent_text"' in row and not heard[0]:
            heard[0] = time.time()

    line = json.dumps(_says("One moment.")).replace("'", "")
    rest = stage.folder / "rest.jsonl"
    rest.write_bytes(b"".join(_stream(SMALL)))
    body = f"date +%s.%N > '{said}'; echo '{line}'; sleep 0.5; exec cat '{rest}'"
    scene.reset()
    spend(replace(_command(stage, scene, body, "--json"), on_line=hear))
    return heard[0] - float(said.read_text())


def _stream(size: int) -> Iterator[bytes]:
    """A session of reads, edits and remarks of about this size, as Claude Code prints it."""
    start = {"type": "system", "subtype": "init", "session_id": SESSION, "model": "bench"}
    yield _row(start)
    content = "".join(f"{n:4d}\tdef line_{n}(value: int) -> int:\\n" for n in range(60))
    written, n = 0, 0
    while written < size:
        n += 1
        for event in (_uses(n), _answers(n, content), _says(f"Step {n} is done, on to the next.")):
            row = _row(event)
            written += len(row)
            yield row
    yield _row(_says("<promise>COMPLETE</promise>"))
    yield _row({"type": "result", "subtype": "success", "is_error": False, "session_id": SESSION})


def _message(role: str, block: dict[str, object], name: str) -> dict[str, object]:
    message = {"id": name, "role": role, "content": [block], "usage": {"input_tokens": 12}}
    return {"type": role, "message": message, "parent_tool_use_id": None, "session_id": SESSION}


def _says(text: str) -> dict[str, object]:
    return _message("assistant", {"type": "text", "text": text}, f"msg_{len(text)}_{text[:9]}")


def _uses(n: int) -> dict[str, object]:
    block = {"type": "tool_use", "name": "Read", "input": {"file_path": f"/repo/src/file_{n}.py"}}
    return _message("assistant", block, f"msg_{n}")


def _answers(n: int, content: str) -> dict[str, object]:
    return _message("user", {"type": "tool_result", "content": content}, f"answer_{n}")


def _row(event: dict[str, object]) -> bytes:
    return json.dumps(event).encode() + b"\n"
