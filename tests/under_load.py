"""Run a command beside four busy processes: `python -m tests.under_load make test`. No test depends on the speed."""

from __future__ import annotations

import os
import subprocess
import sys
import time

N_PROCESSES, LIMIT_S = 4, 3600.0
# Ends by itself after the limit, or once this process has ended: then another one is its parent.
BUSY = """
import os, sys, time
end, parent = time.monotonic() + float(sys.argv[1]), int(sys.argv[2])
while time.monotonic() < end and os.getppid() == parent:
    sum(range(100_000))
"""


def main(command: list[str]) -> int:
    """Return the exit code of the command."""
    busy_command = [sys.executable, "-c", BUSY, str(LIMIT_S), str(os.getpid())]
    busy = [subprocess.Popen(busy_command) for _ in range(N_PROCESSES)]
    begin = time.monotonic()
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        for process in busy:
            process.kill()
            process.wait()
        print(f"{time.monotonic() - begin:.0f} s beside {N_PROCESSES} busy processes", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
