"""Which operators of a quantized model stay between a DequantizeLinear and a QuantizeLinear after
onnxruntime has loaded and optimized it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

from fusionc.inspect.integer_census import IntegerCensus
from fusionc.integer_groups.float_fallback import integers_around
from fusionc.model.graph import Node
from fusionc.operators.integer_operators import DEQUANTIZE
from fusionc.operators.signedness import SIGNED
from fusionc.runtime.process import request
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.session_settings import SessionSettings

_SEVERAL_READERS = (
    "several operators read the values, and onnxruntime changes int8 to uint8 only for one reader"
)
_Key = tuple[str, str, str]  # the name, domain and operator of a node


def correct_by_onnxruntime(census: IntegerCensus, path: Path) -> None:
    """Correct a census with the optimized model that onnxruntime makes of the file. If onnxruntime
    does not load the file, nothing changes.
    """
    kept = _kept_nodes(path)
    reads = {node: kept.get((node.name, *node.operator)) for node in census.nodes if node.name}
    for node in [node for node in census.in_integers if node.domain == "" and reads.get(node)]:
        del census.in_integers[node]
        census.in_float[node] = _reason(node)
    # An operator that no longer reads a dequantized value now works on integers.
    for node in [node for node in census.in_float if reads.get(node) is False]:
        del census.in_float[node]
        census.in_integers[node] = None


def _kept_nodes(path: Path) -> Mapping[_Key, bool]:
    """The nodes of the optimized model, and whether each reads a dequantized value."""
    with TemporaryDirectory() as folder:
        target = str(Path(folder, "run.onnx"))
        file = str(path.resolve())
        try:
            request("optimized_by", file, [], SessionSettings().as_json(), False, target)
        except RunError:
            return {}
        nodes = onnx.load(target, load_external_data=False).graph.node
    dequantized = {
        name for node in nodes if (node.domain, node.op_type) in DEQUANTIZE for name in node.output
    }
    return {
        (node.name, node.domain, node.op_type): not dequantized.isdisjoint(node.input)
        for node in nodes
    }


def _reason(node: Node) -> str:
    is_signed = any(value.elem_type == SIGNED for value in integers_around(node))
    return _SEVERAL_READERS if is_signed else "onnxruntime does not recognize the quantized group"
