"""Replace each If by the branch that it takes on one input. The branch's values are then in the
main graph, where they can be read and replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

from fusionc.protos import graphs_of
from fusionc.runtime.runner import Feeds
from fusionc.verify.inner_values import inner_values

Conditions = Mapping[str, bool]
_DEEPEST = 8  # levels of nested Ifs that are replaced


def take_branches(model: onnx.ModelProto, folder: Path, feeds: Feeds) -> Conditions:
    """Replace each If of the main graph by the branch that it takes on `feeds`. Return the values
    of the conditions by their names. An If in a Loop, a Scan or a function stays. Raises RunError.
    """
    known = dict[str, bool]()
    for _ in range(_DEEPEST):
        wanted = {node.input[0] for node in model.graph.node if _is_if(node)} - set(known)
        if not wanted:
            break
        values = inner_values(model, folder, sorted(wanted), feeds)
        known |= {name: bool(np.asarray(value).all()) for name, value in values.items()}
        take_known_branches(model, known)
    return known


def take_known_branches(model: onnx.ModelProto, conditions: Conditions) -> None:
    """Replace each If of the main graph whose condition is known. An If stays if its branch and the
    main graph have a name in common.
    """
    names = _names_in(model.graph)
    is_changed = True
    while is_changed:
        is_changed = False
        nodes = list(model.graph.node)
        del model.graph.node[:]
        for node in nodes:
            branch = _taken(node, conditions) if _is_if(node) else None
            own = set[str]() if branch is None else _names_in(branch)
            if branch is None or not names.isdisjoint(own) or branch.sparse_initializer:
                model.graph.node.append(node)
                continue
            names |= own
            is_changed = True
            model.graph.initializer.extend(branch.initializer)
            model.graph.node.extend(branch.node)
            for value, result in zip(branch.output, node.output, strict=True):
                model.graph.node.append(onnx.helper.make_node("Identity", [value.name], [result]))


def _is_if(node: onnx.NodeProto) -> bool:
    return node.op_type == "If" and not node.domain


def _taken(node: onnx.NodeProto, conditions: Conditions) -> onnx.GraphProto | None:
    """The branch that an If takes; None if its condition is not known."""
    if node.input[0] not in conditions:
        return None
    name = "then_branch" if conditions[node.input[0]] else "else_branch"
    branches = (graphs_of(attribute) for attribute in node.attribute if attribute.name == name)
    return next((graph for graphs in branches for graph in graphs), None)


def _names_in(graph: onnx.GraphProto) -> set[str]:
    """The names of initializers and results of a graph, without those of its subgraphs."""
    names = {tensor.name for tensor in graph.initializer}
    return names.union(*(node.output for node in graph.node)) - {""}
