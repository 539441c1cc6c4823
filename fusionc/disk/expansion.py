"""Check how large a model is after its function calls are inlined: onnxruntime and onnx's shape
inference inline all calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import onnx

from fusionc.errors import FusioncError
from fusionc.model.operators import canonical_domain
from fusionc.protos import graphs_of

# Inlining may add at most so many nodes. For more nodes, shape inference would take too long.
MOST_NODES = 100_000
MOST_NESTED = 200  # the most nested calls; onnxruntime accepts half as many
_Key = tuple[str, str, str]


def require_expandable(model: onnx.ModelProto, where: str) -> None:
    """Raise FusioncError if a function calls itself, if the calls are nested too deeply, or if
    inlining would add too many nodes. Nothing is inlined for the check, and its time is linear in
    the size of the model.
    """
    bodies = {_key(f.domain, f.name, f.overload): _count_operators(f.node) for f in model.functions}
    if not bodies:
        return
    sizes = dict[_Key, int]()
    depth = 0
    for key, nodes, nested in _sizes(bodies, where):
        sizes[key] = nodes
        depth = max(depth, nested)
    if depth > MOST_NESTED:
        raise FusioncError(
            f"the function calls of the model are nested {depth:,} deep",
            where=where,
            hint="onnxruntime accepts at most 100 nested calls; export the model with fewer",
            code="E13005",
        )
    called = _count_operators(model.graph.node)
    expanded = sum(count * sizes.get(key, 1) for key, count in called.items())
    stored = called.total() + sum(nodes.total() for nodes in bodies.values())
    if expanded - stored > MOST_NODES:
        raise FusioncError(
            f"the model has {expanded:,} nodes after its function calls are inlined",
            where=where,
            hint=(
                "onnxruntime inlines all calls; export the model with calls that add at most "
                f"{MOST_NODES:,} nodes"
            ),
            code="E13005",
        )


def _sizes(bodies: dict[_Key, Counter[_Key]], where: str) -> Iterator[tuple[_Key, int, int]]:
    """For each function: its key, the number of nodes after inlining, and how deeply its calls are
    nested. A function comes after the functions that it calls.
    """
    sizes: dict[_Key, int] = {}
    depths: dict[_Key, int] = {}
    callees = {key: iter(list(filter(bodies.__contains__, body))) for key, body in bodies.items()}
    for start in bodies:
        path = [start] if start not in sizes else []
        open_ = {start}
        while path:
            key = path[-1]
            missing = next((called for called in callees[key] if called not in sizes), None)
            if missing is None:
                body = bodies[key]
                sizes[key] = sum(count * sizes.get(called, 1) for called, count in body.items())
                depths[key] = 1 + max([0, *(depths.get(called, 0) for called in body)])
                yield key, sizes[key], depths[key]
                open_.discard(path.pop())
            elif missing in open_:
                raise _circle(missing, f"{where}, function {key[1]!r}")
            else:
                path.append(missing)
                open_.add(missing)


def _circle(called: _Key, where: str) -> FusioncError:
    what = f"the model is not valid: the function {called[1]!r} calls itself"
    return FusioncError(
        what, where=where, hint="export the model again, or correct it there", code="E13005"
    )


def _count_operators(nodes: Iterable[onnx.NodeProto]) -> Counter[_Key]:
    """Operator → how often it occurs, including in subgraphs."""
    counts: Counter[_Key] = Counter()
    pending = [nodes]
    while pending:
        for node in pending.pop():
            counts[_key(node.domain, node.op_type, node.overload)] += 1
            pending += [
                graph.node for attribute in node.attribute for graph in graphs_of(attribute)
            ]
    return counts


def _key(domain: str, name: str, overload: str) -> _Key:
    return canonical_domain(domain), name, overload
