"""The machine code of a library, if a disassembler is installed."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

needs_x86_code = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or shutil.which("objdump") is None,
    reason="reads the code of x86-64 with objdump",
)


def vector_functions(library: Path) -> dict[str, list[str]]:
    """The functions of a library that use registers of 32 or 64 bytes, with their instructions."""
    command = ["objdump", "-d", "--no-show-raw-insn", str(library)]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict[str, list[str]]()
    for block in code.split("\n\n"):
        head, _, lines = block.strip().partition("\n")
        name = re.fullmatch(r"[0-9a-f]+ <(\S+)>:", head)
        if name and re.search(r"%[yz]mm", lines):
            found[name[1]] = [line.partition(":\t")[2] for line in lines.splitlines()]
    return found
