from __future__ import annotations

import platform
from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import qualified
from fusionc.operators.integer_operators import QUANTIZE
from fusionc.operators.signedness import KERNELS, OPPOSITE, opposite
from fusionc.passes._shared.constants import array_of
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes.quantization._signed_regions import (
    SignedRegion,
    data_places,
    graded_regions,
    is_given,
    zero_places,
    zero_point,
)
from fusionc.rewrite import Match, Miss, Pattern, Result, Tape, UBFusionPass, refuse

_MEASURED = ("x86_64", "AMD64")  # the processors on which the fast types were measured


def _matches(graph: Graph) -> Iterator[Match | Miss]:
    for region, is_slow in graded_regions(graph):
        if is_slow:
            yield Match(graph, region.ordered, region.outputs, {"region": region})
        elif region.nodes:
            reason = "no product reads its integers"
            if region.votes:
                reason = "the products are fast with its integers as they are"
            yield Miss(region.ordered[0], reason)


def _converted(value: Edge, elem_type: int, new: Tape) -> Edge:
    """The integers `value`, which have this type, converted to the other signedness."""
    zero = opposite(np.zeros((), np.int16), elem_type)
    real = new.Cast(value, to=TensorProto.FLOAT)
    return new.QuantizeLinear(real, new.const(np.asarray(1, np.float32)), new.const(zero))


def _changed_sources(region: SignedRegion, new: Tape) -> dict[Edge, Edge]:
    """For each constant of a region, and each of its values from outside, the same value in the
    other signedness.
    """
    made: dict[Edge, Edge] = {}
    for value in region.values:
        if value.is_constant:
            made[value] = new.const(opposite(array_of(value), region.elem_type))
        elif is_given(value):
            made[value] = _converted(value, region.elem_type, new)
    return made


def _moved(node: Node, region: SignedRegion, made: dict[Edge, Edge], new: Tape) -> tuple[Edge, ...]:
    """The outputs of a new node in place of `node` that reads and makes the integers of the region
    in the other signedness. `made` has the new values so far.
    """
    places = data_places(node)
    inputs = [
        made.get(value, value)
        if value is not None and (at in places or value not in region.values)
        else value
        for at, value in enumerate(node.inputs)
    ]
    for place in zero_places(node, region):
        zero = zero_point(node, place)
        assert zero is not None  # else the region has an obstacle
        inputs += [None] * (place + 1 - len(inputs))
        inputs[place] = new.const(opposite(zero, region.elem_type))
    written = {}
    if node.operator in QUANTIZE and node.attr("output_dtype"):
        written["output_dtype"] = OPPOSITE[region.elem_type]
    return new.node(
        node.op,
        inputs,
        domain=node.domain,
        like=node,
        outputs=[value is not None for value in node.outputs],
        **written,
    )


class QuantizedSignednessPass(UBFusionPass):
    """Quantized values become uint8, and weights int8: only in that form are products fast.

    before   values in int8 with zero point z, between operators that have zero points:
             QuantizeLinear, DequantizeLinear, QLinearConv, QLinearMatMul, MatMulInteger,
             ConvInteger, QGemm, …; constant weights in uint8
    after    the same values plus 128 in uint8 with zero point z + 128; weights minus 128 in int8.
             For ConvInteger it is the other way round: data in int8 and weights in uint8. An input
             of the model is converted by Cast and QuantizeLinear. So are values next to QLinearAdd,
             QLinearMul and QLinearAveragePool, because these operators would round in another way
    refuses  integers that are outputs of the model, that a subgraph reads, or that an operator
             without a zero point makes or reads; zero points that the model computes; scales with
             which onnxruntime's integer operators fail (several scales for data; for AveragePool,
             a scale that is not a scalar); a path that leaves a region (values that must change
             together) and enters it again; conversions that would take longer than the products
             save; a region that must have the same type as a region that cannot change; weights in
             int8 with which a sum may saturate in 16 bits on a processor without VNNI; processors
             other than x86-64; targets other than onnxruntime
    algebra  sat(round(x/s) + z), saturated to the range of int8, plus 128 is
             sat(round(x/s) + z + 128), saturated to the range of uint8; (q + 128) − (z + 128) =
             q − z
    source   microsoft/onnxruntime 6732 and 12854, where maintainers name signed values as the cause
             of slow models; operators/signedness.py has the measured times of the types
    """

    changes_whole_groups = True
    patterns = (
        Pattern(
            "QuantizedSignedness",
            find=_matches,
            operators=tuple(qualified(name, domain) for domain, name in KERNELS),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        if platform.machine() not in _MEASURED:
            refuse("the signedness that is fast on this processor is not known")
        region = m.region
        if region.obstacle:
            refuse(region.obstacle)
        made = _changed_sources(region, new)
        for node in region.ordered:
            outputs = [value for value in node.outputs if value is not None]
            moved = [value for value in _moved(node, region, made, new) if value is not None]
            made.update(zip(outputs, moved, strict=True))
        to = OPPOSITE[region.elem_type]
        back = {value: _converted(made[value], to, new) for value in region.handed_back}
        return [back.get(value, made[value]) for value in m.outputs]
