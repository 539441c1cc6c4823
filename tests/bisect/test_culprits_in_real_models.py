"""A few of the faults that benchmarks/culprits.py plants in real models; `make culprits` plants
all.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from culprits import FAULTS, Fault, complaints, hydrated

SHARED = Path(__file__).parents[3] / "shared"
FEW = [fault for fault in FAULTS if fault.model in ("lstm-dyn-s", "dlrm-dyn-b")]


@pytest.mark.long
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there")
@pytest.mark.parametrize("fault", FEW, ids=str)
def test_a_fault_in_a_real_model_is_found(
    fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = hydrated(SHARED / f"models/{fault.model}.onnx", tmp_path)
    assert list(complaints(model, [fault], [])) == []
