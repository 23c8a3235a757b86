"""The floor of understanding a stream of JSON lines: each of them parsed, nothing else."""

import json
import sys


def main(path: str) -> int:
    """Parse the file; 0 if every line was an object."""
    with open(path, "rb") as file:
        return 0 if all(isinstance(json.loads(line), dict) for line in file) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
