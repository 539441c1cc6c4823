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
# for each way in which onnxruntime runs an operator: topic, text and advice of the finding
_OF_WAYS = {
    "float32": (
        "computed in float32",
        "onnxruntime has no float16 kernel for {}; it puts Casts around these operators",
        "on a CPU a float32 model is faster; keep the weights small by quantization instead",
    ),
    "none": (
        "no kernel",
        "onnxruntime has no kernel for the input types of {}; it will not load the model",
        "export with other element types, or raise the model with --target_opset",
    ),
    "foreign": (
        "unknown operators",
        "onnxruntime does not know the operators {}; it will not load the model by itself",
        (
            "correct the names; for operators of your own, --custom_op_library takes the library "
            "that has them"
        ),
    ),
    "parts": (
        "written out when the model is loaded",
        (
            "onnxruntime has no kernel for {}, and no pass replaces them; it runs the operators "
            "that define them"
        ),
        "convert with --enable_graph_kernel, which generates one kernel for each",
    ),
}


def findings(model: Model, dry: DryRun) -> Iterator[Finding]:
    """Findings on how onnxruntime runs each node of all graphs, and whether passes change that."""
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
            f"onnxruntime runs a subgraph once for every step of {_counted(steps)}",
            (
                "export the computation as one operator, such as LSTM, GRU or CumSum, or unroll "
                "the loop if the steps are few"
            ),
            _labels(steps),
        )
    if flat := [
        n for n in nodes if n.is_op("Conv") and n.inputs[0] is not None and n.inputs[0].rank == 3
    ]:
        yield Finding(
            "convolutions over one axis",
            f"{_counted(flat)} cannot use onnxruntime's blocked layout, which is faster",
            _axes_advice(_labels(flat), dry),
            _labels(flat),
        )


def _axes_advice(places: tuple[str, ...], dry: DryRun) -> str:
    """What the pass does that turns convolutions over one axis into convolutions over two axes."""
    taken = dry.takes(_OVER_TWO_AXES, places)
    reason = dry.reason(_OVER_TWO_AXES)
    because = f" because {reason}" if reason else "; fusionc why gives the reason"
    if not taken:
        return f"nothing needs to be done: {_OVER_TWO_AXES} leaves them as they are{because}"
    rest = "" if taken == len(places) else f", and leaves the others{because}"
    number = f"{taken:,} of {len(places):,} convolutions"
    return f"convert: {_OVER_TWO_AXES} turns {number} into convolutions over two axes{rest}"


def _way(node: Node, probes: Probes) -> str:
    """How onnxruntime runs a node: a Way, "foreign" if the operator is unknown, or "unknown" if the
    types of its inputs are.
    """
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
    """Whether a node needs only its inputs: no subgraphs, and no parameters of a function."""
    return not node.bodies and not node.has_references


def _counted(nodes: list[Node]) -> str:
    counts = Counter(node.op for node in nodes)
    return ", ".join(f"{times} {op}" for op, times in sorted(counts.items()))


def _labels(nodes: list[Node]) -> tuple[str, ...]:
    return tuple(node.label() for node in nodes)
