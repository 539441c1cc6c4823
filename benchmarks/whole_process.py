"""What a command costs as a whole process: seconds, processor time, peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# As in an installation, where modules are compiled once.
_ENVIRONMENT = {
    name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}
# A process begins with the peak memory of the one that starts it: this starts each command, and
# imports nothing large.
_STARTER = """
import json, os, subprocess, sys, time
begin = time.perf_counter()
null = subprocess.DEVNULL
child = subprocess.Popen(sys.argv[2:], stdin=null, stdout=null, stderr=subprocess.PIPE)
os.set_blocking(child.stderr.fileno(), False)
said = b""
code = None
while code is None:
    time.sleep(0.002)
    said = (said + (child.stderr.read() or b""))[-2000:]
    pid, status, used = os.wait4(child.pid, os.WNOHANG)
    if pid:
        code = os.waitstatus_to_exitcode(status)
    elif time.perf_counter() - begin > float(sys.argv[1]):
        child.kill()
seconds = time.perf_counter() - begin
said = (said + (child.stderr.read() or b""))[-2000:].decode(errors="replace")
print(json.dumps([code, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, said]))
"""


@dataclass(frozen=True)
class Cost:
    """Exit code (below 0: the signal), seconds, seconds of the processor (its children's, too),
    bytes, standard error.

    The peak is the larger one of the process and of each child that it has waited for.
    """

    code: int
    seconds: float
    processor: float
    peak: int
    said: str


def cost_of(command: Sequence[str], folder: Path | None = None, patience: float = 600.0) -> Cost:
    """Run a command, in a folder, and wait for it; what takes longer than `patience` seconds is
    ended (code -9).
    """
    starter = [sys.executable, "-S", "-E", "-c", _STARTER, str(patience), *command]
    ran = subprocess.run(
        starter, check=True, capture_output=True, text=True, cwd=folder, env=_ENVIRONMENT
    )
    return Cost(*json.loads(ran.stdout))
