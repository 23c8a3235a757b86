"""The floor of reading an agent: bounded chunks, a search for the tag, a log; nothing else."""

import os
import subprocess
import sys

TAG = b"<promise>COMPLETE</promise>"


def main(log: str, *agent: str) -> int:
    """Read the agent to its end; 0 if the tag was there."""
    found = False
    tail = b""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    source, sink = os.pipe()
    with subprocess.Popen(agent, stdin=subprocess.DEVNULL, stdout=sink) as process:
        os.close(sink)
        while chunk := os.read(source, 256 * 1024):
            os.write(out, chunk)
            window = tail + chunk
            found = found or TAG in window
            tail = window[-4096:]
    return 0 if found and process.returncode == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
