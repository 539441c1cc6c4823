from collections.abc import Iterator

from fusionc.model.graph import Graph, Model, Node
from fusionc.protos import training_nodes
from fusionc.rewrite import Match, Miss, Pass, Pattern, Result, Tape
from fusionc.rewrite.splice import is_dead

_Key = tuple[str, str, str]  # domain, name and overload of a function


def _dead_nodes(graph: Graph) -> Iterator[Match | Miss]:
    for node in reversed(graph.ordered()):
        if is_dead(node):
            yield Match(graph, (node,))
        elif node.is_in_graph:
            yield Miss(node, _reason_to_live(node))


def _reason_to_live(node: Node) -> str:
    """Why a node is not dead."""
    if not node.graph.proto.output:
        return "the graph declares no outputs, so each of its nodes may be needed"
    is_used = any(output is not None and output.is_used for output in node.outputs)
    return "its result is used" if is_used else "it is random, stateful or custom"


def _unused_constants(graph: Graph) -> Iterator[Match | Miss]:
    for constant in list(graph.constants()):
        if graph.model.ir_version < 4:
            yield Miss(constant, "before IR version 4, a constant is also an input of the graph")
        elif not constant.is_used:
            yield Match(graph, drops=(constant,))
        elif constant.is_pinned:
            yield Miss(constant, "an annotation or training information names it")
        else:
            yield Miss(constant, "it is used")


def _unused_functions(graph: Graph) -> Iterator[Match]:
    if graph is not graph.model.main or not graph.model.functions:
        return
    functions = graph.model.functions
    called = _called_functions(graph.model)
    for key in [key for key in functions if key not in called]:
        yield Match(graph, drops=(functions[key],))


def _called_functions(model: Model) -> set[_Key]:
    """The functions called by the main graph, by training nodes, or by a function that is itself
    called.
    """
    keys: list[_Key] = [
        (node.domain, node.op_type, node.overload) for node in training_nodes(model.proto)
    ]
    keys += _keys(model.main)
    called: set[_Key] = set()
    while keys:
        key = keys.pop()
        if key in model.functions and key not in called:
            called.add(key)
            keys += _keys(model.functions[key])
    return called


def _keys(graph: Graph) -> Iterator[_Key]:
    """The keys of the functions that the nodes of a graph and its subgraphs may call."""
    nodes = list(graph.nodes)
    while nodes:
        node = nodes.pop()
        nodes.extend(inner for body in node.bodies for inner in body.nodes)
        yield node.domain, node.op, node.proto.overload


class PrunePass(Pass):
    """Unneeded nodes, constants and model-local functions are removed.

    before   a node with only unused outputs; an initializer that no node reads; a function that no
             node calls
    after    nothing
    refuses  nothing
    never    values that training information names; graph inputs; initializers that the caller may
             override; random, stateful or custom operators
    algebra  a node on which no output depends does not change any output
    source   CANN's PrunePass and UnusedConstPass
    """

    default = "must"
    aliases = ("UnusedConstPass",)
    patterns = (
        Pattern("DeadNode", find=_dead_nodes),
        Pattern("UnusedConstant", find=_unused_constants),
        Pattern("UnusedFunction", find=_unused_functions),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return None
