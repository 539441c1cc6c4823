from collections.abc import Iterator

from fusionc.model.graph import Graph
from fusionc.protos import training_nodes
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape
from fusionc.rewrite.splice import is_dead


def _dead_nodes(graph: Graph) -> Iterator[Match]:
    for node in reversed(graph.ordered()):
        if is_dead(node):
            yield Match(graph, (node,))


def _unused_constants(graph: Graph) -> Iterator[Match]:
    # there, an initializer is a graph input as well, and inputs stay
    if graph.model.ir_version < 4:
        return
    for constant in list(graph.constants()):
        if not constant.is_used:
            yield Match(graph, drops=(constant,))


def _unused_functions(graph: Graph) -> Iterator[Match]:
    if graph is not graph.model.main or not graph.model.functions:
        return
    functions = graph.model.functions
    needed: set[tuple[str, str, str]] = set()
    called = [
        (node.domain, node.op_type, node.overload) for node in training_nodes(graph.model.proto)
    ]
    reached = list(graph.nodes)
    while called or reached:
        if not called:
            node = reached.pop()
            reached.extend(inner for body in node.bodies for inner in body.nodes)
            called.append((node.domain, node.op, node.proto.overload))
        key = called.pop()
        if key in functions and key not in needed:
            needed.add(key)
            reached.extend(functions[key].nodes)
    for key in [key for key in functions if key not in needed]:
        yield Match(graph, drops=(functions[key],))


class PrunePass(Pass):
    """What nothing needs is removed: nodes, constants, model-local functions.

    before   a node none of whose outputs is used; an initializer nobody reads; a function nobody
             calls
    after    nothing
    refuses  nothing
    never    what training information names, graph inputs, initializers that the caller may
             override; random, stateful or custom operators
    algebra  what no output depends on changes no output
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
