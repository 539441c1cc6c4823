from collections.abc import Iterator

from fusionc.model.functions import parameters
from fusionc.model.graph import Graph
from fusionc.model.operators import is_foreign
from fusionc.passes.cleanup._inlining import inlined
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, refuse
from fusionc.rewrite.pipeline import is_alive
from fusionc.runtime.cpu_kernels import has_operator


def _calls(graph: Graph) -> Iterator[Match]:
    for node in graph.ordered():
        function = node.function
        if function is not None and not node.has_references:
            living = filter(is_alive, graph.model.graphs)
            calls = sum(len(other.by_operator.get(node.operator, ())) for other in living)
            drops = (function,) if calls == 1 else ()
            yield Match(
                graph, (node,), node.outputs, {"node": node, "function": function}, drops=drops
            )


class FunctionInlinePass(Pass):
    """The call of a model-local function is replaced by the nodes of its body.

    before   f(x, attribute = 3)
    after    the body of f with x as its input and 3 as its attribute; if this was the last call of
             f, f is removed, too
    refuses  bodies with control flow, or with random numbers without a seed; operators that have
             another definition at the opset of the model; a function with the name of an operator
             of onnx or onnxruntime, because onnxruntime runs its own operator
    never    off by default, because a runtime may have a kernel for the function
    algebra  the definition of a function call
    source   onnx's inliner; after inlining, passes see types and constants that the function hides
    """

    default = "off"
    patterns = (Pattern("FunctionCall", find=_calls),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        node = m.node
        if not is_foreign(node) or has_operator(
            node.op, node.domain, node.graph.opset_of(node.domain)
        ):
            refuse("the runtime has an operator of this name, which it may run instead")
        attributes = parameters(m.function.proto, m.node.proto)
        return inlined(new, m.node, m.function, m.node.inputs, attributes)
