"""What the target runtime can do."""

from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.rewrite import Match, refuse, unknown
from fusionc.runtime.cpu_kernels import has_cpu_kernel

# the types for which runtimes have kernels
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)


def require_floats(value: Edge) -> None:
    """Refuses elements that are not floating-point numbers, or of a type with few kernels."""
    if value.elem_type not in FLOATS:
        refuse("the elements are not floating-point numbers")


def require_onnxruntime(m: Match) -> None:
    """Refuses other targets: the gain is measured for onnxruntime only."""
    if not m.graph.model.is_for_onnxruntime:
        refuse(f"for target {m.graph.model.target} no gain is known")


def require_kernel(m: Match, name: str) -> None:
    """Refuses a standard operator if the target lacks a kernel of it for the elements of x.

    The tape asks this for new operators, except for float16; it does not ask for an operator that
    stays and gets other elements.
    """
    elem_type = m.x.elem_type
    if not elem_type:
        refuse(unknown("the element type"))
    if m.graph.model.is_for_onnxruntime and not has_cpu_kernel(name, "", m.opset, elem_type):
        refuse(f"no CPU kernel for {name} of these elements")
