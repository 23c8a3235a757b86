"""The agent of the benchmarks where no C compiler is: the same tricks as `agent.c`."""

import sys
from pathlib import Path


def churn(counter: Path, files: int) -> None:
    """Edit ten files, delete two, add five: other ones at every call."""
    story = int(counter.read_text()) if counter.exists() else 0
    for j in range(12):
        i = (story * 12 + j) * 61 % files
        folder = Path(f"p{i // 2000:02d}/d{i // 20 % 100:03d}")
        path = folder / f"f{i % 20:02d}.txt"
        if j < 10:
            with path.open("a") as out:
                out.write("one more line\n")
        else:
            path.unlink()
        if j < 5:
            new = folder / f"new-{story}-{j}.txt"
            new.write_text(str(new))
    counter.write_text(f"{story + 1}\n")


def flood(left: int) -> None:
    """Print lines of 100 bytes in big blocks."""
    block = (b"a" * 99 + b"\n") * 2560
    while left > 0:
        piece = block[: (left + 99) // 100 * 100]
        sys.stdout.buffer.write(piece)
        left -= len(piece)


def main(mode: str, *rest: str) -> None:
    """Read the prompt, do the trick, promise COMPLETE."""
    sys.stdin.buffer.read()
    if mode == "churn":
        churn(Path(rest[0]), int(rest[1]))
    elif mode == "flood":
        flood(int(rest[0]))
    else:
        raise SystemExit(2)
    sys.stdout.buffer.write(b"<promise>COMPLETE</promise>\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
