"""Element types and kernels that the target runtime supports."""

from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.rewrite import Match, refuse, unknown
from fusionc.runtime.cpu_kernels import has_cpu_kernel
from fusionc.runtime.processor import has_vnni

# the floating-point types for which runtimes have kernels of most operators
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
SATURATES = "without VNNI, products with these weights may saturate"  # a reason to refuse


def require_floats(value: Edge) -> None:
    """Refuse elements that are not float32, float64 or float16."""
    if value.elem_type not in FLOATS:
        refuse("the elements are not floating-point numbers")


def require_onnxruntime(m: Match) -> None:
    """Refuse targets other than onnxruntime, because the gain was measured for onnxruntime only."""
    if not m.graph.model.is_for_onnxruntime:
        refuse(f"for target {m.graph.model.target} no gain is known")


def require_vnni() -> None:
    """Refuse a product of uint8 and int8 if the processor lacks VNNI, because sums of two products
    may then saturate at 16 bits.
    """
    if not has_vnni():
        refuse(SATURATES)


def require_kernel(m: Match, name: str) -> None:
    """Refuse if the target lacks a kernel of a standard operator for the element type of m.x, or if
    this type is unknown.

    The tape, which creates the new nodes of a rewrite, checks this for all types except float16. It
    does not check existing nodes whose element type the rewrite changes.
    """
    elem_type = m.x.elem_type
    if not elem_type:
        refuse(unknown("the element type"))
    if m.graph.model.is_for_onnxruntime and not has_cpu_kernel(name, "", m.opset, elem_type):
        refuse(f"no CPU kernel for {name} of these elements")
