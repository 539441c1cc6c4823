"""Convert every model of onnx's backend tests. For models that were not verified, find out whether
they could have been verified.

    python benchmarks/backend.py                 all models, with default options
    python benchmarks/backend.py --kernels       with generated kernels
    python benchmarks/backend.py --only resize   models whose name contains a word

If onnxruntime runs a model on the inputs of its test, the conversion must have verified it. fusionc
draws its own inputs. Exit code 1 if a result is wrong, a conversion fails, or such a model was not
verified.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases

import fusionc
from fusionc.errors import FusioncError
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Runner, closes_runners

STORED = Path(onnx.__file__).parent / "backend/test/data"


def cases() -> Iterator[tuple[str, onnx.ModelProto, list[Any] | None]]:
    """The name, model and inputs of each case. The inputs are None if they are not tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in collect_testcases(None):
            yield case.name, case.model, list(case.data_sets[0][0]) if case.data_sets else None
    for path in sorted(STORED.rglob("*.onnx")):
        yield (
            f"{path.parent.name}/{path.stem}",
            onnx.load(path),
            _stored_inputs(path.parent / "test_data_set_0"),
        )


def _stored_inputs(folder: Path) -> list[Any] | None:
    files = sorted(folder.glob("input_*.pb"), key=lambda file: int(re.sub(r"\D", "", file.stem)))
    tensors = [onnx.TensorProto.FromString(file.read_bytes()) for file in files]
    return [onnx.numpy_helper.to_array(tensor) for tensor in tensors] if tensors else None


def outcome(model: onnx.ModelProto, inputs: Sequence[Any] | None, kernels: bool) -> str:
    """The outcome of a conversion as one word, and the reason."""
    Path("model.onnx").write_bytes(model.SerializeToString())
    try:
        report = fusionc.convert("model.onnx", output="out.onnx", enable_graph_kernel=kernels)
    except FusioncError as error:
        return f"FAILED {error.what}"
    except Exception as error:
        return f"CRASHED {type(error).__name__}: {error}"
    if not report.verification.startswith("not verified"):
        return "equal"
    return (
        f"impossible {trouble}"
        if (trouble := _trouble(model, inputs))
        else f"UNVERIFIED {report.verification}"
    )


@closes_runners
def _trouble(model: onnx.ModelProto, inputs: Sequence[Any] | None) -> str:
    """Why onnxruntime cannot run the model on the inputs of its test. Empty if it can."""
    try:
        runner = Runner(model.SerializeToString())
        if inputs is not None:
            runner.run(
                {
                    value.name: _fed(given)
                    for value, given in zip(model.graph.input, inputs, strict=False)
                }
            )
    except RunError as error:
        return str(error)
    return ""


def _fed(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, model, inputs in cases():
            if options.only in name:
                text = outcome(model, inputs, options.kernels)
                word = text.partition(" ")[0]
                found[word] += 1
                if word != "equal":
                    print(f"{name}: {text}"[:300], flush=True)
    print(dict(found))
    return int(any(word.isupper() for word in found))


if __name__ == "__main__":
    sys.exit(main())
