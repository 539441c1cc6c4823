"""What tells processors apart for which onnxruntime packs weights in different ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusionc.ready_form.machine import this_machine
from fusionc.runtime import processor


@pytest.mark.parametrize("line", ["flags\t\t: fpu amx_tile smep", "Features\t: fp i8mm half"])
def test_instructions_that_numpy_does_not_know(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    monkeypatch.setattr(processor, "_CPUINFO", cpuinfo)
    plain = this_machine()
    cpuinfo.write_text(f"processor\t: 0\n{line}\n")
    more = this_machine()
    (name,) = set(more.instructions) - set(plain.instructions)
    assert name in ("AMX_TILE", "I8MM")
    assert (
        more.difference(plain) == f"made on a processor with {name}, which this one does not have"
    )
    assert plain.difference(more) == f"made on a processor without {name}, which this one has"
