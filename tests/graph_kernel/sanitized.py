"""Generated C under AddressSanitizer and UndefinedBehaviorSanitizer, without onnxruntime."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import standalone

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c import compile
from fusionc.graph_kernel.c.source import reason_against

_FLAGS = (
    *compile.FLAGS, "-O1", "-g",
    "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all",
)  # fmt: skip


def works(folder: Path) -> bool:
    """Whether the compiler of this machine has the sanitizers."""
    source = folder / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    program = folder / "empty"
    return (
        not _compile(source, program).returncode
        and not subprocess.run([program], check=False).returncode
    )


def _compile(source: Path, program: Path) -> subprocess.CompletedProcess[str]:
    command = [*compile.compiler(), *_FLAGS, "-o", str(program), str(source), "-lm"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def findings(
    areas: Mapping[str, Area],
    feeds: Mapping[str, Sequence[Mapping[str, np.ndarray]]],
    folder: Path,
    counts: Counter[str],
) -> list[str]:
    """The findings of the sanitizers when each kernel runs on its inputs."""
    reasons = {name: reason_against(area) for name, area in areas.items()}
    counts.update(f"refused: {reason}" for reason in reasons.values() if reason)
    counts["refused"] += sum(reason is not None for reason in reasons.values())
    good = {name: area for name, area in areas.items() if reasons[name] is None}
    text = folder / "sanitized.c"
    text.write_text(standalone.program(list(good.values())))
    program = folder / "sanitized"
    made = _compile(text, program)
    assert not made.returncode, made.stderr
    found = []
    for number, (name, area) in enumerate(good.items()):
        counts["compared"] += 1
        calls = b"".join(standalone.call(number, area, one) for one in feeds[name])
        run = subprocess.run([program], input=calls, capture_output=True, check=False)
        if run.returncode:
            lines = (run.stdout + run.stderr).decode(errors="replace").splitlines()
            found.append(f"{name}: exit code {run.returncode}: {' | '.join(lines[:4])}")
    return found
