"""Load two models, compare their interfaces, opsets, nodes and weights, and measure both."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx.numpy_helper import to_array

from fusionc.diff.changes import Change, NodeChanges, node_changes
from fusionc.diff.measures import Measures, Sized, measures_of
from fusionc.diff.pairs import Digests
from fusionc.disk.load import load
from fusionc.errors import UsageError
from fusionc.model.graph import Model
from fusionc.shapes.inference import typed_model
from fusionc.verify.interface import interface_differences, overridable


@dataclass(frozen=True)
class WeightChanges:
    """Changes of the initializers of the main graph, by name."""

    equal: int  # initializers with the same name and elements
    renamed: int  # initializers with the same elements and another name
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True)
class ModelDiff:
    """The differences between two models."""

    paths: tuple[Path, Path]
    before: Measures
    after: Measures
    interface: tuple[str, ...]  # a sentence for each difference
    nodes: NodeChanges
    weights: WeightChanges

    @property
    def is_same(self) -> bool:
        """Whether both models have the same nodes and weights. Names, comments and metadata do not
        count.
        """
        one = self.before
        other = self.after
        versions = (one.ir_version, one.opsets, one.parameters) == (
            other.ir_version,
            other.opsets,
            other.parameters,
        )
        return versions and not self.interface and not self.nodes.changes

    def as_json(self) -> dict[str, Any]:
        """All differences as plain data."""
        return {
            "same": self.is_same,
            "before": {"model": str(self.paths[0])} | asdict(self.before),
            "after": {"model": str(self.paths[1])} | asdict(self.after),
            "interface": list(self.interface),
            "kept_nodes": self.nodes.kept,
            "changes": [asdict(change) for change in self.nodes.changes],
            "weights": asdict(self.weights),
        }


def model_diff(
    before: Path, after: Path, input_shape: Mapping[str, Sequence[int]] | None = None
) -> ModelDiff:
    """Compare two model files. `input_shape` has the input sizes for counting operations.

    Raises UsageError if a file or an input does not exist, and FusioncError if a file is not an
    ONNX model.
    """
    protos = (load(before), load(after))
    folders = [os.fspath(path.parent) for path in (before, after)]
    sizes = input_shape or {}
    names = [{value.name for value in proto.graph.input} for proto in protos]
    for name in (name for name in sizes if name not in names[0] | names[1]):
        hint = f"the inputs of the models are: {', '.join(sorted(names[0] | names[1]))}"
        raise UsageError(
            f"no model has an input {name}", where="--input_shape", hint=hint, code="E10016"
        )
    one, other = (
        Sized(proto, folder, {name: shape for name, shape in sizes.items() if name in own})
        for proto, folder, own in zip(protos, folders, names, strict=True)
    )
    other.learn(one)
    one.learn(other)
    old, new = (typed_model(proto, folder) for proto, folder in zip(protos, folders, strict=True))
    digests = Digests()
    changes = node_changes(old, new, digests)
    return ModelDiff(
        (before, after),
        measures_of(protos[0], before, one),
        measures_of(protos[1], after, other),
        interface=(
            *map(str, interface_differences(*protos)),
            *_default_changes(protos, folders),
            *changes.ports,
        ),
        nodes=changes,
        weights=_weight_changes(old, new, digests),
    )


def summed(changes: Sequence[Change]) -> list[tuple[Change, int]]:
    """Group changes that differ only in the names of their nodes. Each group is the first change
    and the number of changes.
    """
    first: dict[object, Change] = {}
    times = Counter[object]()
    for change in changes:
        operators = [
            tuple(node.operator for node in nodes) for nodes in (change.before, change.after)
        ]
        key = (change.kind, *operators, change.passes, change.details)
        first.setdefault(key, change)
        times[key] += 1
    return [(change, times[key]) for key, change in first.items()]


def _default_changes(protos: Sequence[onnx.ModelProto], folders: Sequence[str]) -> Iterator[str]:
    """A sentence for each optional input whose default value differs between the models."""
    names = set(overridable(protos[0])).intersection(overridable(protos[1]))
    before, after = (
        {
            tensor.name: (tensor, folder)
            for tensor in proto.graph.initializer
            if tensor.name in names
        }
        for proto, folder in zip(protos, folders, strict=True)
    )
    for name in before:
        one = to_array(*before[name])
        other = to_array(*after[name])
        if (
            one.tobytes() != other.tobytes()
            if one.dtype != object
            else one.tolist() != other.tolist()
        ):
            yield f"{name}: this input has another default value"


def _renamed(removed: Mapping[str, object], added: Mapping[str, object]) -> dict[str, str]:
    """The new names of removed weights that have the same digest as an added weight."""
    names: dict[object, list[str]] = {}
    for name, digest in added.items():
        names.setdefault(digest, []).append(name)
    return {name: same.pop(0) for name, digest in removed.items() if (same := names.get(digest))}


def _weight_changes(before: Model, after: Model, digests: Digests) -> WeightChanges:
    old = {weight.name: digests.of(weight) for weight in before.main.constants()}
    new = {weight.name: digests.of(weight) for weight in after.main.constants()}
    both = old.keys() & new.keys()
    changed = tuple(name for name in old if name in both and old[name] != new[name])
    removed = _without(old, both)
    added = _without(new, both)
    renamed = _renamed(removed, added)
    return WeightChanges(
        len(both) - len(changed),
        len(renamed),
        changed,
        tuple(_without(removed, renamed)),
        tuple(_without(added, renamed.values())),
    )


def _without(digests: Mapping[str, object], names: Iterable[str]) -> dict[str, object]:
    excluded = set(names)
    return {name: digest for name, digest in digests.items() if name not in excluded}
