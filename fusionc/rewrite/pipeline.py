"""All enabled passes in order, in rounds, until a whole round changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from fusionc.errors import FusioncError
from fusionc.model.graph import Graph, Model
from fusionc.model.operators import KERNELS
from fusionc.rewrite.apply import apply
from fusionc.rewrite.definition import Pass
from fusionc.rewrite.log import PatternCount, RewriteLog

ROUNDS = 50


@np.errstate(all="ignore")  # what overflows is refused where it becomes a constant
def run(
    model: Model,
    passes: Sequence[Pass],
    log: RewriteLog,
    progress: Callable[[str], None] | None = None,
    after: Callable[[str], None] | None = None,
) -> list[PatternCount]:
    """Run the passes, each on the main graph and on every subgraph and function, and count what they did.

    The result has one record for each pattern and graph, in execution order. What took effect is summed over the
    rounds; what was refused is what still stood at the end, and for a pattern without effect what was refused last.
    `progress` is called with the name of a pass before it runs, `after` with the name of one that took effect.
    Raises FusioncError where the passes undo each other.
    """
    counts: dict[tuple[int, str, str], PatternCount] = {}
    seen: dict[str, int] = {}  # the version of the model in which a pass found nothing more to do
    for _ in range(ROUNDS):
        busy = []
        for pass_ in passes:
            if seen.get(pass_.name) == model.version:
                continue
            if progress is not None:
                progress(pass_.name)
            if _run_pass(model, pass_, log, counts):
                busy.append(pass_.name)
                if after is not None:
                    after(pass_.name)
            else:
                seen[pass_.name] = model.version
        if not busy or log.is_closed:
            return _in_order(counts, passes)
    raise FusioncError(
        f"the passes do not come to rest in {ROUNDS} rounds: {', '.join(busy)} still take effect",
        where=", ".join(p.place for p in passes if p.place and p.name in busy),
        hint=f'switch one of them off: --optimization_switch "{busy[-1]}:off"',
        code="E20007",
    )


def _run_pass(model: Model, pass_: Pass, log: RewriteLog, counts: dict[tuple[int, str, str], PatternCount]) -> bool:
    effected = False
    model.types.begin_pass()
    for graph in model.graphs:
        if not is_alive(graph):
            continue
        for pattern in pass_.patterns:
            new = apply(pass_, pattern, graph, log)
            effected |= new.effected > 0
            total = counts.setdefault((graph.id, pass_.name, pattern.name), new)
            if total is not new:
                total.effected += new.effected
                total.seconds += new.seconds
                # A user asks why a pass did nothing, even where another pass took the place later.
                if new.refused or total.effected:
                    total.refused, total.waiting = new.refused, new.waiting
    return effected


def is_alive(graph: Graph) -> bool:
    """Whether a graph is still part of the model: its node, or its function, may have been removed.

    The definition of a kernel stays as it was when the kernel was made of it.
    """
    if isinstance(graph.proto, onnx.FunctionProto) and graph.proto.domain == KERNELS:
        return False
    if graph.is_function:
        return any(graph is function for function in graph.model.functions.values())
    return graph.owner is None or (graph.owner.is_in_graph and is_alive(graph.owner.graph))


def _in_order(counts: dict[tuple[int, str, str], PatternCount], passes: Sequence[Pass]) -> list[PatternCount]:
    keys = [(p.name, pattern.name) for p in passes for pattern in p.patterns]
    order = {key: i for i, key in enumerate(keys)}
    return sorted(counts.values(), key=lambda c: (order[c.pass_name, c.pattern], c.graph_id))
