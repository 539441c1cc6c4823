"""What all graphs of a model share: its proto, operator sets and target, and the names in use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol

import onnx

from fusionc.model import operators
from fusionc.model.tensors import ValueType
from fusionc.protos import fresh_name

GROWTH_KEY = "fusionc.folding_growth"


class Types(Protocol):
    """The interface to type inference, which is `shapes.inference`, above this room. Values and
    nodes are those of `model.graph`.
    """

    def of(self, value: Any, *, rank_only: bool = False) -> ValueType:
        """The type of a value as far as it can be known; with `rank_only` its dimensions do not
        matter.
        """

    def elements_of(self, value: Any) -> list[Any] | None:
        """The elements of a vector or scalar of integers that is not a constant, as far as they can
        be known.
        """

    def begin_pass(self) -> None:
        """Note that a pass starts, which may refresh the types once."""

    def new_symbol(self) -> str:
        """A name for an unknown dimension."""

    def note_commit(self, replaced: Sequence[tuple[Any, Any]], new_nodes: Sequence[Any]) -> None:
        """Note that the graph has changed: the second value of each pair has replaced the first."""


class ModelHeader:
    """What the graphs of a model share."""

    types: Types

    def __init__(self, proto: onnx.ModelProto, folder: str, target: str) -> None:
        self.proto = proto
        self.folder = folder  # the folder of external data
        self.opsets = operators.opsets_of(proto)
        self.target = target
        self.serials = count()  # of values
        self.version = 0  # counts commits: a pass that has seen this version finds nothing new
        # Bytes by which constant folding has made the model larger so far, in earlier conversions,
        # too.
        growth = (
            p.value for p in proto.metadata_props if p.key == GROWTH_KEY and p.value.isdigit()
        )
        self.folding_growth = int(next(growth, 0))
        # of values and nodes in any scope, in the form of `fresh_name`
        self.names: dict[str, int] = {}

    @property
    def ir_version(self) -> int:
        """The version of the format of the model."""
        return self.proto.ir_version

    @property
    def is_for_onnxruntime(self) -> bool:
        """Whether the result may use what only onnxruntime has."""
        return self.target == "onnxruntime-cpu"

    def unique_name(self, base: str) -> str:
        """A name that no value and no node has in any scope; `base` itself if it is free."""
        return fresh_name(base, self.names)
