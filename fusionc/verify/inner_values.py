"""The inner values of the main graph of a model, on one input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from fusionc.model.functions import inlined
from fusionc.protos import copied
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Feeds, closes_runners
from fusionc.verify.model_file import LARGEST_COPY, light_model
from fusionc.verify.seeding import seeded_runner


def inner_values(
    model: onnx.ModelProto, folder: Path, names: Sequence[str], feeds: Feeds
) -> dict[str, Any]:
    """The values of the main graph that have these names. Raises RunError."""
    seen = copied(model)
    del seen.graph.output[:]
    # an output must not be an input or an initializer, so each value gets an Identity
    for number, name in enumerate(names):
        output = f"{name}.seen.{number}"
        seen.graph.node.append(onnx.helper.make_node("Identity", [name], [output]))
        seen.graph.output.append(onnx.ValueInfoProto(name=output))
    return dict(zip(names, seeded_runner(seen, folder).run(feeds), strict=True))


@closes_runners
def has_infinities(path: Path, feeds: Feeds) -> bool:
    """Whether a model computes NaN or infinities somewhere in its main graph. False if its inner
    values cannot be read.
    """
    with suppress(RunError, OSError, ValueError):
        model, folder = light_model(path)
        if model.ByteSize() > LARGEST_COPY:
            return False
        model = inlined(model)
        nodes = (node for node in model.graph.node if node.op_type != "Constant")
        names = [name for node in nodes for name in node.output if name]
        return not all(map(is_finite, inner_values(model, folder, names, feeds).values()))
    return False


def is_finite(value: Any) -> bool:
    """Whether a value holds neither NaN nor infinities."""
    values: Mapping[Any, Any] | Sequence[Any] = value if isinstance(value, list | dict) else [value]
    arrays = [
        np.asarray(item) for item in (values.values() if isinstance(values, Mapping) else values)
    ]
    return all(bool(np.isfinite(array).all()) for array in arrays if array.dtype.kind == "f")
