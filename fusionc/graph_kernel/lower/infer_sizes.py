"""Infer the sizes of all values of an area. They are C code that computes them from the sizes of
the area's inputs.
"""

from __future__ import annotations

import onnx

from fusionc.graph_kernel.lower.area_info import AreaInfo, KernelShape
from fusionc.graph_kernel.lower.elementwise import ELEMENTWISE
from fusionc.graph_kernel.lower.operator_table import OPERATORS
from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported
from fusionc.model.operators import MICROSOFT
from fusionc.operators.polynomials import ONE


def infer_sizes(info: AreaInfo) -> None:
    """Fill in the shapes of all values, beginning with the inputs.

    Raises Unsupported if the area contradicts itself, or if no kernel computes one of its
    operators.
    """
    for number, name in enumerate(info.area.inputs):
        shape = []
        for axis, dim in enumerate(info.area.values[name].shape):
            known = info.declared(name, axis)
            if isinstance(dim, int) and dim >= 0:
                info.sizes.check(
                    f"in[{number}][{axis}] == {dim}",
                    "an input has another size than the model declares",
                )
            size = known or info.sizes.variable(f"in[{number}][{axis}]")
            if isinstance(dim, str):
                info.symbols.setdefault(dim, size)
                info.sizes.equal(
                    size,
                    info.sizes.variable(f"in[{number}][{axis}]"),
                    "sizes differ that must be equal",
                )
            shape.append(size)
        info.shapes[name] = tuple(shape)
    for node in info.area.nodes:
        if node.op_type not in OPERATORS or node.domain not in ("", MICROSOFT):
            raise Unsupported(f"no kernel computes {node.op_type}")
        for name, found in zip(
            node.output, OPERATORS[node.op_type].shapes(info, node), strict=False
        ):
            if name:
                info.shapes[name] = _reconciled(info, node, name, found)


def _reconciled(info: AreaInfo, node: onnx.NodeProto, name: str, found: KernelShape) -> KernelShape:
    """The sizes to use for a result that is declared with some sizes, and computed with the sizes
    `found`. They are the declared ones; the kernel checks them when it runs, unless they are
    certain. A declaration that may be wrong is ignored: then the computed sizes are used.
    """
    declared = info.area.values[name].shape
    if len(declared) != len(found):
        raise Unsupported(f"{name} has another rank than the area declares")
    shape = []
    is_inferred_wrongly = not info.wrongly_inferred.isdisjoint(node.input)
    for axis, (dim, size) in enumerate(zip(declared, found, strict=True)):
        known = info.declared(name, axis)
        if known is not None and known != size:
            if (
                is_inferred_wrongly or node.op_type == "PRelu"
            ):  # inference takes the operand's size, but the slope may be larger
                info.wrongly_inferred.add(name)
                known = None
            elif name in info.area.outputs and _is_broadcast(info, node, axis - len(found)):
                known = None  # the declaration holds for this output, but not for its operands
            else:
                info.sizes.equal(size, known, "sizes differ that must be equal")
        elif known is None and isinstance(dim, str):
            info.symbols[dim] = size
        shape.append(size if known is None else known)
    return tuple(shape)


def _is_broadcast(info: AreaInfo, node: onnx.NodeProto, back: int) -> bool:
    """Whether an operator broadcasts different sizes on an axis. `back` is negative: it counts the
    axes from the end.
    """
    shapes = [info.shapes[operand] for operand in node.input if operand]
    sizes = {shape[back] for shape in shapes if len(shape) >= -back}
    return node.op_type in ELEMENTWISE and len(sizes - {ONE}) > 1
