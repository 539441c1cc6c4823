"""How much of the reference's outputs depends on the last place of the functions that it computes
in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper

from fusionc.model.functions import inlined
from fusionc.model.tensors import byte_size, float_info, numpy_type
from fusionc.operators.domains import MICROSOFT
from fusionc.operators.facts import Trait, names_with
from fusionc.protos import tensors_of
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Feeds, Runner, closes_runners
from fusionc.verify.model_file import LARGEST_COPY, light_model
from fusionc.verify.seeding import seeded_runner

_MOST_NODES = 20_000
_APPROXIMATED = names_with(Trait.APPROXIMATED) | names_with(Trait.APPROXIMATED, domain=MICROSOFT)
_DRAWS = 8
# It is 0.5 and something in onnxruntime: what is next to 0 is off by the last place of 0.5.
_BESIDE_HALF = "Sigmoid"
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)


class InnerRounding:
    """Runs the reference with what the functions of its main graph give moved by a unit in the last
    place, or not.

    Another kernel for Erf, say, may give the next number. Where the model amplifies that, as 1 +
    erf(-3.5) does, moving what the model reads shows nothing of it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @closes_runners
    def draws(self, feeds: Feeds) -> Iterator[list[Any]]:
        """The outputs of the reference on `feeds`, its values moved in one way after the other."""
        with suppress(RunError, OSError, ValueError):
            model, folder = light_model(self._path)
            model = inlined(model)
            if (
                sum(map(byte_size, tensors_of(model))) > LARGEST_COPY
                or len(model.graph.node) > _MOST_NODES
            ):
                return
            moves = _with_moves(model)
            if not moves:
                return
            yield from self._runs(seeded_runner(model, folder), feeds, moves)

    def _runs(
        self, runner: Runner, feeds: Feeds, moves: Mapping[str, _Move]
    ) -> Iterator[list[Any]]:
        try:
            for draw in range(_DRAWS):
                rng = np.random.default_rng(draw)
                yield runner.run(
                    {**feeds, **{name: move.drawn(rng) for name, move in moves.items()}}
                )
        finally:
            runner.close()


@dataclass(frozen=True)
class _Move:
    """By what an operator moves a value: a number near 1 that multiplies it, or near 0 that is
    added.
    """

    dtype: Any
    op: str

    def drawn(self, rng: np.random.Generator) -> Any:
        step = float(float_info(np.dtype(self.dtype)).eps)
        near = [1 - step / 2, 1, 1 + step] if self.op == "Mul" else [0, step / 8, step / 4]
        return np.asarray(rng.choice(near), self.dtype)


def _with_moves(model: ModelProto) -> dict[str, _Move]:
    """Multiply the floats that functions give by new scalar inputs, and add to some; returns these,
    by their names.
    """
    kinds = _kinds(model)
    moves = dict[str, _Move]()
    nodes = list[NodeProto]()
    for node in model.graph.node:
        nodes.append(node)
        if node.op_type not in _APPROXIMATED:
            continue
        for index, name in enumerate(node.output):
            if (kind := kinds.get(name, 0)) in _FLOATS:
                is_beside_half = node.op_type == _BESIDE_HALF and kind != TensorProto.FLOAT16
                before = f"{name} before it is moved"
                node.output[index] = before
                for op, value, moved in _steps(before, name, is_beside_half):
                    by = f"{name} is moved by {op}"
                    nodes.append(helper.make_node(op, [value, by], [moved]))
                    model.graph.input.append(helper.make_tensor_value_info(by, kind, []))
                    moves[by] = _Move(numpy_type(kind), op)
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return moves


def _steps(before: str, name: str, is_beside_half: bool) -> list[tuple[str, str, str]]:
    """The operators that move a value, each with what it reads and what it gives."""
    if not is_beside_half:
        return [("Mul", before, name)]
    beside = f"{name} beside a half"
    return [("Add", before, beside), ("Mul", beside, name)]


def _kinds(model: ModelProto) -> dict[str, int]:
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # of a model that onnx cannot infer, it is known what is said
        graph = model.graph
    return {
        value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)
    }
