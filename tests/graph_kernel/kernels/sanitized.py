"""Generated C under AddressSanitizer and UndefinedBehaviorSanitizer, without onnxruntime."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fusionc.graph_kernel import kernels
from fusionc.graph_kernel.area import Area

_FLAGS = (
    "-std=c11", "-O1", "-g", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fwrapv", "-w",
    "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all",
)  # fmt: skip


def works(folder: Path) -> bool:
    """Whether the compiler of this machine has the sanitizers."""
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    command = ["cc", *_FLAGS, "-o", str(folder / "empty"), str(folder / "empty.c")]
    return (
        not subprocess.run(command, capture_output=True, check=False).returncode
        and not subprocess.run([folder / "empty"], check=False).returncode
    )


def findings(
    areas: Mapping[str, Area],
    feeds: Mapping[str, Sequence[Mapping[str, np.ndarray]]],
    folder: Path,
    counts: Counter[str],
) -> list[str]:
    """What the sanitizers find when kernels run with some inputs each."""
    good = {}
    for name, area in areas.items():
        try:
            kernels.lower(area)
            good[name] = area
        except kernels.Unsupported as reason:
            counts[f"refused: {reason}"] += 1
            counts["refused"] += 1
    text = folder / "sanitized.c"
    text.write_text(kernels.source(list(good.values())) + (Path(__file__).parent / "sanitized.c").read_text())
    program = folder / "sanitized"
    subprocess.run(["cc", *_FLAGS, "-o", str(program), str(text), "-lm"], check=True)
    found = []
    for number, (name, area) in enumerate(good.items()):
        counts["compared"] += 1
        calls = b"".join(_call(number, area, one) for one in feeds[name])
        run = subprocess.run([program], input=calls, capture_output=True, check=False)
        if run.returncode:
            lines = (run.stdout + run.stderr).decode(errors="replace").splitlines()
            found.append(f"{name}: exit code {run.returncode}: {' | '.join(lines[:4])}")
    return found


def _call(number: int, area: Area, feeds: Mapping[str, np.ndarray]) -> bytes:
    parts = [np.int32(number).tobytes()]
    for name in area.inputs:
        parts += [np.array(feeds[name].shape, np.int64).tobytes(), np.ascontiguousarray(feeds[name]).tobytes()]
    return b"".join(parts)
