"""The other optimizers, behind one interface. As a program, this file runs one of them from file to
file.

python benchmarks/optimizers.py onnxsim model.onnx result.onnx
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import onnx
from onnx import ModelProto

Optimizer = Callable[[ModelProto], ModelProto]


def onnxsim(model: ModelProto) -> ModelProto:
    from onnxsim import simplify

    result: ModelProto = simplify(model)[0]
    return result


def onnxslim(model: ModelProto) -> ModelProto:
    from onnxslim import slim

    result: ModelProto = slim(model)
    return result


def onnxscript(model: ModelProto) -> ModelProto:
    from onnxscript import optimizer, rewriter

    result: ModelProto = rewriter.rewrite(optimizer.optimize(model))
    return result


def onnxoptimizer(model: ModelProto) -> ModelProto:
    from onnxoptimizer import optimize

    result: ModelProto = optimize(model)
    return result


def onnxruntime_basic(model: ModelProto) -> ModelProto:
    return _offline(model, "ORT_ENABLE_BASIC")


def onnxruntime_extended(model: ModelProto) -> ModelProto:
    return _offline(model, "ORT_ENABLE_EXTENDED")


def onnxruntime_all(model: ModelProto) -> ModelProto:
    """All of onnxruntime's optimizers, including the layout for this processor, which is not
    portable.
    """
    return _offline(model, "ORT_ENABLE_ALL")


def _offline(model: ModelProto, level: str) -> ModelProto:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = f"{folder}/model.onnx"
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return onnx.load(options.optimized_model_filepath)


def transformers(model: ModelProto) -> ModelProto:
    """onnxruntime's transformers optimizer. It gets no information about the model except its
    nodes.
    """
    from onnxruntime.transformers.optimizer import optimize_model

    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, f"{folder}/model.onnx")
        result: ModelProto = optimize_model(f"{folder}/model.onnx", "bert", opt_level=0).model
        return result


PORTABLE: tuple[Optimizer, ...] = (onnxsim, onnxslim, onnxscript, onnxoptimizer, onnxruntime_basic)
OTHERS: tuple[Optimizer, ...] = (*PORTABLE, onnxruntime_extended, onnxruntime_all, transformers)


if __name__ == "__main__":
    _, name, source, result = sys.argv
    (found,) = (optimizer for optimizer in OTHERS if optimizer.__name__ == name)
    onnx.save(found(onnx.load(Path(source))), result)
