from collections.abc import Iterator

from fusionc.model.graph import Edge, Graph, Node
from fusionc.passes.cleanup._inlining import inlined
from fusionc.rewrite import Match, Miss, Pass, Pattern, Result, Tape, find_each, refuse


def _is_constant_truth(value: Edge | None, wanted: bool) -> bool:
    """Whether a value is a constant that equals `wanted`."""
    array = None if value is None else value.constant()
    return array is not None and array.size == 1 and bool(array.reshape(()) > 0) is wanted


def _decided_if(node: Node) -> Match:
    # onnxruntime accepts an If without inputs
    condition = node.inputs[0] if node.inputs else None
    if _is_constant_truth(condition, True):
        branch = node.attr("then_branch")
    elif _is_constant_truth(condition, False):
        branch = node.attr("else_branch")
    else:
        refuse("its condition is not a constant with one element")
    return Match(node.graph, (node,), node.outputs, {"node": node, "branch": branch})


def _loops_that_never_run(graph: Graph) -> Iterator[Match | Miss]:
    for node in graph.of_operator("Loop"):
        count, condition, *initial = node.inputs
        if _is_constant_truth(count, False) or _is_constant_truth(condition, False):
            outputs = [value for value in node.outputs if value is not None and value.is_used]
            yield Match(graph, (node,), outputs, {"node": node, "initial": initial})
        else:
            yield Miss(
                node, "it has neither a constant trip count of 0 nor a constant false condition"
            )


def _initial_values(m: Match, new: Tape) -> Result:
    carried = dict(zip(m.node.outputs, m.initial, strict=False))
    if any(value not in carried for value in m.outputs):
        refuse("collected values of the Loop are used")
    return [carried[value] for value in m.outputs]


class SwitchDeadBranchElimination(Pass):
    """An If with a known condition becomes its branch; a Loop that never runs becomes its initial
    values.

    before   If(true) with branches A and B; a Loop with a trip count of 0, or with a condition that
             is false from the start
    after    the nodes of A; the initial values
    refuses  a Loop whose collected values (scan outputs) are used: they would be empty tensors, and
             only the body determines their shape; control flow in the branch that reuses the name
             of an outer value; random numbers without a seed in the branch
    algebra  the other branch does not affect any output
    source   CANN's SwitchDeadBranchElimination
    """

    patterns = (
        Pattern("DecidedIf", find=find_each(_decided_if, "If"), operators=("If",)),
        Pattern(
            "LoopThatNeverRuns",
            find=_loops_that_never_run,
            operators=("Loop",),
            rewrite=_initial_values,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return inlined(new, m.node, m.branch)
