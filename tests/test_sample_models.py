"""sample_models/ holds what its script writes: small, valid models that run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fusionc.verify import verify

FOLDER = Path(__file__).parents[1] / "sample_models"
NAMES = ["control_flow", "conv_bn", "matmul_bias", "split_concat", "transformer_block"]


def test_the_files_are_fresh_and_staleness_is_seen(tmp_path: Path) -> None:
    check = [sys.executable, str(FOLDER / "make.py"), "--check"]
    assert subprocess.run(check, check=False).returncode == 0
    copy = tmp_path / "make.py"
    copy.write_bytes((FOLDER / "make.py").read_bytes())
    stale = subprocess.run(
        [sys.executable, str(copy), "--check"], check=False, capture_output=True, text=True
    )
    assert stale.returncode == 1 and "conv_bn.onnx" in stale.stdout
    subprocess.run([sys.executable, str(copy)], check=True)
    assert all(
        (tmp_path / f"{name}.onnx").read_bytes() == (FOLDER / f"{name}.onnx").read_bytes()
        for name in NAMES
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_small_and_runs(name: str) -> None:
    path = FOLDER / f"{name}.onnx"
    assert path.stat().st_size < 100_000
    # An If, at the edges with both its states; a mask that holds other numbers, too.
    assert verify(path, path).runs == {"control_flow": 11, "transformer_block": 8}.get(name, 7)
