"""Operators for which onnxruntime has no CPU kernel, or only a slow one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from fusionc.inspect.dry_run import DryRun
from fusionc.inspect.finding import Finding
from fusionc.inspect.probes import Probes
from fusionc.model.graph import Model, Node
from fusionc.runtime.cpu_kernels import has_operator, way_to_run

_BY_STEPS = ("Loop", "Scan")
_OVER_TWO_AXES = "Conv1dToConv2dPass"
# by the way in which onnxruntime runs operators: topic, text and advice of the finding
_OF_WAYS = {
    "float32": (
        "computed in float32",
        "no kernel for float16: {}; onnxruntime puts Casts around them",
        "on a CPU a float32 model is faster; keep the weights small by quantization instead",
    ),
    "none": (
        "no kernel",
        "no kernel for their input types: {}; onnxruntime will not load the model",
        "export with other element types, or raise the model with --target_opset",
    ),
    "foreign": (
        "unknown operators",
        "onnxruntime has no such operators: {}; it will not load the model by itself",
        (
            "correct the names; for operators of your own, --custom_op_library takes the library "
            "that has them"
        ),
    ),
    "parts": (
        "written out when the model is loaded",
        (
            "no kernel of their own, and no pass takes them: {}; onnxruntime runs the operators "
            "that they are made of"
        ),
        "convert with --enable_graph_kernel, which generates one kernel for each",
    ),
}


def findings(model: Model, dry: DryRun) -> Iterator[Finding]:
    """Findings on the nodes of all graphs: how onnxruntime runs each, and what passes do then."""
    nodes = [node for graph in model.graphs for node in graph.ordered() if node.function is None]
    found: dict[str, list[Node]] = {}
    probes = Probes()
    for node in nodes:
        found.setdefault(_way(node, probes), []).append(node)
    found["parts"] = [node for node in found.get("parts", ()) if dry.keeps(node.label())]
    for way, (kind, text, advice) in _OF_WAYS.items():
        if of_way := found.get(way):
            yield Finding(kind, text.format(_counted(of_way)), advice, _labels(of_way))
    yield from _slow(nodes, dry)


def _slow(nodes: Sequence[Node], dry: DryRun) -> Iterator[Finding]:
    """Findings on nodes whose kernel is slow."""
    if steps := [node for node in nodes if node.is_op(*_BY_STEPS)]:
        yield Finding(
            "computed step by step",
            f"a subgraph is run anew for every step: {_counted(steps)}",
            (
                "export what they compute as one operator, such as LSTM, GRU or CumSum, or unroll "
                "it if the steps are few"
            ),
            _labels(steps),
        )
    if flat := [
        n for n in nodes if n.is_op("Conv") and n.inputs[0] is not None and n.inputs[0].rank == 3
    ]:
        yield Finding(
            "convolutions over one axis",
            f"not in onnxruntime's blocked layout, which is faster: {_counted(flat)}",
            _axes_advice(_labels(flat), dry),
            _labels(flat),
        )


def _axes_advice(places: tuple[str, ...], dry: DryRun) -> str:
    """What the pass would do that turns convolutions into ones over two axes."""
    taken = dry.takes(_OVER_TWO_AXES, places)
    reason = dry.reason(_OVER_TWO_AXES)
    because = f" because {reason}" if reason else "; fusionc why gives the reason"
    if not taken:
        return f"nothing needs to be done: {_OVER_TWO_AXES} leaves them as they are{because}"
    rest = "" if taken == len(places) else f", and leaves the others{because}"
    number = f"{taken:,} of {len(places):,} convolutions"
    return f"convert: {_OVER_TWO_AXES} makes {number} over two axes{rest}"


def _way(node: Node, probes: Probes) -> str:
    """How onnxruntime runs a node: a Way, or "foreign" for an unknown operator, or "unknown"."""
    version = node.graph.opset_of(node.domain) or 1
    types = [0 if v is None else v.elem_type for v in node.inputs]
    if not has_operator(node.op, node.domain, version):
        return "foreign"
    way = "kernel" if node.is_op("Constant") else way_to_run(node.op, node.domain, version, types)
    is_known = _has_known_types(node)
    if way == "parts" and is_known and _is_alone(node):
        way = probes.way(node)
    return "unknown" if way == "none" and (not is_known or node.domain) else way


def _has_known_types(node: Node) -> bool:
    return all(value is None or value.elem_type for value in node.inputs)


def _is_alone(node: Node) -> bool:
    """Whether a node needs only its inputs."""
    return not node.bodies and not node.has_references


def _counted(nodes: list[Node]) -> str:
    counts = Counter(node.op for node in nodes)
    return ", ".join(f"{times} {op}" for op, times in sorted(counts.items()))


def _labels(nodes: list[Node]) -> tuple[str, ...]:
    return tuple(node.label() for node in nodes)
