"""Writes the results of other optimizers for sample_models/, for tests of comparisons.

    pip install onnxsim==0.8.1 onnxslim==0.1.98 && python tests/diff/recorded/record.py

The other optimizers are not dependencies, because the tests read only the files.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxsim
import onnxslim

HERE = Path(__file__).parent
SAMPLES = HERE.parents[2] / "sample_models"


def main() -> None:
    for name in ("conv_bn", "transformer_block"):
        model = onnx.load(SAMPLES / f"{name}.onnx")
        simplified, is_right = onnxsim.simplify(model)
        assert is_right
        onnx.save(simplified, HERE / f"{name}_onnxsim.onnx")
        onnx.save(onnxslim.slim(model), HERE / f"{name}_onnxslim.onnx")


if __name__ == "__main__":
    main()
