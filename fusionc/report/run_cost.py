"""What a run of a model costs, computed from the shapes: multiplications, weights, and the memory
for values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fusionc.model.graph import Edge, Graph, Model, Node
from fusionc.model.tensors import byte_size
from fusionc.operators.facts import Trait, names_with
from fusionc.protos import tensors_of
from fusionc.report.model_nodes import nodes_of_graphs
from fusionc.report.node_cost import UnknownSize, macs_of, sizes_for_symbols, value_bytes

_SHOWS = names_with(Trait.RESHAPES) | {
    "Identity"
}  # operators whose result shares the memory of the input


@dataclass(frozen=True)
class RunCost:
    """What a run of a model costs. Nodes and values of unknown size are left out."""

    macs: int  # multiplications (each with its addition) of matrix products, convolutions and so on
    weight_bytes: int
    # the largest size of the inputs, inner values and outputs that exist at the same time
    value_bytes: int
    unknown: int  # the number of nodes and values of unknown size
    is_open: bool  # whether some input sizes are not fixed by the model; these count as 1
    sized_by: str = ""  # the option whose first sizes the open sizes have instead


def run_cost(
    model: Model, shapes: Mapping[str, Sequence[int]] | None = None, option: str = ""
) -> RunCost:
    """What one run of a model costs, with 1 for each symbol, or with the sizes that `option` gives
    the symbols: these are the `shapes` of inputs. All branches of subgraphs count."""
    macs = unknown = 0
    sizes = _symbol_sizes(model, shapes or {})
    with sizes_for_symbols(sizes):
        for node in nodes_of_graphs(model):
            try:
                macs += macs_of(node)
            except UnknownSize:
                unknown += 1
        most, unsized = _most_bytes(model.main)
    weights = sum(map(byte_size, tensors_of(model.proto)))
    is_open = any(
        not isinstance(dim, int) and dim not in sizes
        for value in model.main.inputs
        for dim in value.shape or (None,)
    )
    return RunCost(macs, weights, most, unknown + unsized, is_open, option if sizes else "")


def _symbol_sizes(model: Model, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The sizes of the symbols of inputs that have these shapes. An input whose other sizes differ
    is left out: AIPP has changed it.
    """
    sizes = dict[str, int]()
    for value in model.main.inputs:
        pairs = list(zip(value.shape or (), shapes.get(value.name, ()), strict=False))
        if all(dim == size for dim, size in pairs if isinstance(dim, int)):
            sizes |= {dim: size for dim, size in pairs if isinstance(dim, str)}
    return sizes


def _most_bytes(graph: Graph) -> tuple[int, int]:
    """The largest number of bytes of values that exist at the same time, if each value is freed
    after its last use. Also the number of values of unknown size. A view, such as the result of a
    Reshape, needs no bytes: it counts as a use of the value that it shows.
    """
    nodes = graph.ordered()
    last = _last_uses(graph, nodes)
    sizes, unknown = _sizes(last)
    freed = dict[int, int]()  # bytes by the position of the node after which they are freed
    for value, at in last.items():
        freed[at] = freed.get(at, 0) + sizes[value]
    now = sum(size for value, size in sizes.items() if value.producer is None)
    most = now
    for at, node in enumerate(nodes):
        now += sum(sizes.get(value, 0) for value in node.outputs if value is not None)
        most = max(most, now)
        now -= freed.get(at, 0)
    return most, unknown


def _sizes(values: Iterable[Edge]) -> tuple[dict[Edge, int], int]:
    """The bytes of each value, and the number of values of unknown size. Values of unknown size and
    constants have 0 bytes.
    """
    sizes = dict[Edge, int]()
    unknown = 0
    for value in values:
        try:
            sizes[value] = 0 if value.is_constant else value_bytes(value)
        except UnknownSize:
            sizes[value] = 0
            unknown += 1
    return sizes, unknown


def _last_uses(graph: Graph, nodes: Sequence[Node]) -> dict[Edge, int]:
    """The position of the last node that uses each value or a view of it. Outputs are used after
    the last node.
    """
    shown = dict[Edge, Edge]()
    last = dict[Edge, int]()
    for at, node in enumerate(nodes):
        source = node.inputs[0] if node.op in _SHOWS else None
        if source is not None:
            views = (value for value in node.outputs if value is not None)
            shown |= dict.fromkeys(views, shown.get(source, source))
        used = (*node.inputs, *node.outputs, *node.captures())
        last |= {shown.get(value, value): at for value in used if value is not None}
    return last | {shown.get(value, value): len(nodes) for value in graph.outputs}
