"""A conversion waits for no module that it does not need: imports are most of the time of a small
one.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# onnxruntime is imported in a process of its own meanwhile; the others serve options that most
# conversions lack.
NEVER = {
    "onnxruntime",
    "onnx.reference",
    "rich",
    "fusionc.bisect",
    "fusionc.graph_kernel.fusion",
    "fusionc.graph_kernel.lower",
    "fusionc.graph_kernel.c",
    "fusionc.why",
    "fusionc.ready_form.ready_form",
    "fusionc.report.page",
    "fusionc.check_rewrites",
}
FOR_VERIFICATION = {
    "fusionc.attempt.verdict",
    "fusionc.verify.verification",
    "fusionc.verify.inputs.search",
}


@pytest.mark.parametrize(
    ("options", "unwanted"),
    [([], NEVER), (["--no-verify"], NEVER | FOR_VERIFICATION)],
    ids=["verified", "unverified"],
)
def test_a_conversion_imports_what_it_needs(
    options: list[str], unwanted: set[str], tmp_path: Path
) -> None:
    source = ROOT / "sample_models" / "conv_bn.onnx"
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "fusionc",
        "convert",
        f"--model={source}",
        *options,
    ]
    done = subprocess.run(
        [*command, f"--output={tmp_path / 'out.onnx'}", "--export_compile_stat=0", "--log=null"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "fusionc.passes" in imported  # the list of modules was really read
    assert not imported & unwanted
    assert options or imported >= FOR_VERIFICATION
