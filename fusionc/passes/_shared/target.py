"""What the runtime that the model is made for can do."""

from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.rewrite import Match, refuse
from fusionc.runtime.cpu_kernels import has_cpu_kernel

# what runtimes have kernels for
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)


def require_floats(value: Edge) -> None:
    """Refuses elements that are no floating-point numbers, or some for which runtimes have few
    kernels.
    """
    if value.elem_type not in FLOATS:
        refuse("the elements are not floating-point numbers")


def require_onnxruntime(m: Match) -> None:
    """Refuses for other targets what pays, as far as anybody has measured, in onnxruntime alone."""
    if not m.graph.model.is_for_onnxruntime:
        refuse(f"for target {m.graph.model.target} nothing is known to be gained")


def require_kernel(m: Match, name: str) -> None:
    """Refuses a standard operator for which the target has no kernel that takes elements such as
    those of x.

    The tape asks this of new operators, unless they take float16; not of one that takes other
    elements than before.
    """
    elem_type = m.x.elem_type
    if not elem_type:
        refuse("the element type is unknown")
    if m.graph.model.is_for_onnxruntime and not has_cpu_kernel(name, "", m.opset, elem_type):
        refuse(f"no CPU kernel for {name} of these elements")
