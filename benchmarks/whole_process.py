"""The cost of a command as a whole process: seconds, processor time and peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Modules are compiled once, as in an installation.
_ENVIRONMENT = {
    name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}
# A process begins with the peak memory of its parent. Therefore this program, which imports nothing
# large, starts each command.
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
    """The exit code (a negative signal number if a signal ended the command), seconds, processor
    seconds including those of child processes, peak memory in bytes, and standard error.

    The peak is the largest peak of the process and of each child for which it waited.
    """

    code: int
    seconds: float
    processor: float
    peak: int
    said: str


def cost_of(command: Sequence[str], folder: Path | None = None, patience: float = 600.0) -> Cost:
    """Run a command in a folder and wait for it. A command that takes longer than `patience`
    seconds is killed (exit code -9).
    """
    starter = [sys.executable, "-S", "-E", "-c", _STARTER, str(patience), *command]
    ran = subprocess.run(
        starter, check=True, capture_output=True, text=True, cwd=folder, env=_ENVIRONMENT
    )
    return Cost(*json.loads(ran.stdout))
