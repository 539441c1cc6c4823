"""All enabled passes in order, in rounds, until a whole round changes nothing; each of them
searches, is checked, spliced in and counted until it finds nothing more.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np

from fusionc.errors import Defect, FusioncError, Terminated, said
from fusionc.exactness import decisions_ahead, rounding_rewrites
from fusionc.integer_groups import kept_groups
from fusionc.model.graph import Graph, Model, Node
from fusionc.model.operators import KERNELS
from fusionc.rewrite import matcher
from fusionc.rewrite.definition import Pass, Pattern
from fusionc.rewrite.log import Commit, PatternCount, RewriteLog
from fusionc.rewrite.match import Match, Refused, refuse
from fusionc.rewrite.pattern import makers, names, required
from fusionc.rewrite.soundness import check, check_private
from fusionc.rewrite.splice import splice
from fusionc.rewrite.tape import Tape

ROUNDS = 50
_PACKAGE = str(Path(__file__).parents[1])


@np.errstate(all="ignore")  # what overflows is refused where it becomes a constant
def run(
    model: Model,
    passes: Sequence[Pass],
    log: RewriteLog,
    progress: Callable[[str], None] = lambda _: None,
    after: Callable[[str], None] = lambda _: None,
) -> list[PatternCount]:
    """Run the passes, each on the main graph and on every subgraph and function, and count what
    they did.

    The result has one record for each pattern and graph, in execution order. What took effect is
    summed over the rounds; what was refused is what still stood at the end, and for a pattern
    without effect what was refused last. `progress` is called with the name of a pass before it
    runs, `after` with the name of one that took effect. Raises FusioncError where the passes undo
    each other.
    """
    counts: dict[tuple[int, str, str], PatternCount] = {}
    order = {
        (p.name, q.name): (i, j) for i, p in enumerate(passes) for j, q in enumerate(p.patterns)
    }
    seen: dict[str, int] = {}  # the version of the model in which a pass found nothing more to do
    for _ in range(ROUNDS):
        busy = []
        for pass_ in passes:
            if seen.get(pass_.name) == model.version:
                continue
            progress(pass_.name)
            if _run_pass(model, pass_, log, counts):
                busy.append(pass_.name)
                after(pass_.name)
            else:
                seen[pass_.name] = model.version
        if not busy or log.is_closed:
            return sorted(
                counts.values(), key=lambda c: (order[c.pass_name, c.pattern], c.graph_id)
            )
    what = f"the passes do not come to rest in {ROUNDS} rounds: {', '.join(busy)} still take effect"
    places = ", ".join(p.place for p in passes if p.place and p.name in busy)
    hint = f'switch one of them off: --optimization_switch "{busy[-1]}:off"'
    raise FusioncError(what, where=places, hint=hint, code="E20007")


def _run_pass(
    model: Model, pass_: Pass, log: RewriteLog, counts: dict[tuple[int, str, str], PatternCount]
) -> bool:
    effected = False
    model.types.begin_pass()
    decisions_ahead.forget(model)
    for graph in model.graphs:
        if not is_alive(graph) or getattr(graph.proto, "domain", "") == KERNELS:
            continue  # the definition of a kernel stays as it was when the kernel was made of it
        for pattern in pass_.patterns:
            new = apply(pass_, pattern, graph, log)
            effected |= new.effected > 0
            total = counts.setdefault((graph.id, pass_.name, pattern.name), new)
            if total is not new:
                total.effected += new.effected
                total.seconds += new.seconds
                # A user asks why a pass did nothing, even where another pass took the place later.
                if new.refused or total.effected:
                    total.refused = new.refused
                    total.waiting = new.waiting
    return effected


def is_alive(graph: Graph) -> bool:
    """Whether a graph is still part of the model: its node, or its function, may have been
    removed.
    """
    if graph.is_function:
        return graph.model.functions.get(graph.function_key) is graph
    return graph.owner is None or (graph.owner.is_in_graph and is_alive(graph.owner.graph))


def apply(pass_: Pass, pattern: Pattern, graph: Graph, log: RewriteLog) -> PatternCount:
    """Run one pattern of a pass on a graph until a whole search finds nothing more to do there.

    Before the whole graph is searched again, the new nodes are, so that a node that moves far costs
    one search and not one for each step. What is counted as refused is what the last search leaves.

    Raises FusioncError where the pass itself fails or does not come to an end.
    """
    count = PatternCount(graph.id, pass_.kind, pass_.name, pattern.name)
    start = perf_counter()
    refused: list[Refused] = []
    labels: tuple[str, ...] = ()
    # constants and functions are rewritten, too
    bound = 10 * (len(graph.nodes) + len(graph.values)) + 1000
    # where to search: at what was made since the last search, None for everywhere
    fresh: list[Node] | None = None
    before = -1
    try:
        while (fresh is not None or before < count.effected) and not log.is_closed:
            made: list[Node] = []
            before = count.effected
            if fresh is None:
                refused.clear()
            for match in (
                pattern.find(graph) if pattern.find else _matches(pass_, pattern, graph, fresh)
            ):
                if log.is_closed:
                    break
                # it was collected before something was committed
                if count.effected and match.is_stale:
                    continue
                labels = match.labels
                wanted = Commit(log.count + 1, graph.id, pass_.name, pattern.name, labels)
                try:
                    if wanted in log.left_out:
                        refuse(log.left_out[wanted])
                    made += _rewrite(pass_, pattern, match, log, wanted)
                except Refused as refusal:
                    refused.append(refusal)
                    continue
                count.effected += 1
                log.last = wanted
                if count.effected > bound:
                    raise _endless(pass_, pattern, count.effected, graph)
            fresh = None if pattern.find else made or None
    except BaseException as error:  # of a user's pass anything may come
        is_ours = isinstance(error, FusioncError) and _is_ours(
            traceback.extract_tb(error.__traceback__)[-1]
        )
        if is_ours or isinstance(error, Terminated | KeyboardInterrupt):
            raise
        raise _failure(pass_, pattern, labels, error) from error
    if refused:  # few are, and a Counter of nothing takes as long as the search of most patterns
        count.refused = Counter(refusal.reason for refusal in refused)
        count.waiting = Counter(refusal.opset for refusal in refused if refusal.opset)
    count.seconds = perf_counter() - start
    return count


def _rewrite(
    pass_: Pass, pattern: Pattern, match: Match, log: RewriteLog, wanted: Commit
) -> list[Node]:
    check_private(match)
    tape = Tape(match.graph)
    returned = (pattern.rewrite or pass_.rewrite)(match, tape)
    results = (
        () if returned is None else returned if isinstance(returned, tuple | list) else (returned,)
    )
    new = check(match, results, tape)
    may_round = pass_.numerics != "bitwise" and not pattern.is_exact
    if may_round and (reason := rounding_rewrites.reason_to_be_exact(match.nodes, match.outputs)):
        refuse(reason)
    if not pass_.changes_whole_groups:
        reason = kept_groups.reason_to_keep_group(match.nodes, new.nodes, new.pairs)
        if reason:
            refuse(reason)
    if log.examine is not None:
        log.examine(wanted, pass_, match, new, tape)
    splice(match, new, tape, pass_.name)
    return new.nodes


def _matches(
    pass_: Pass, pattern: Pattern, graph: Graph, among: Sequence[Node] | None
) -> Iterator[Match]:
    """All matches of the formulas, each with one of the nodes that can make the first of them.

    `among` are the nodes that are looked at, None for all.

    The caller commits a match before it takes the next.
    """
    formulas = pattern.formulas
    anchors = makers(formulas[0]) if formulas else None
    if anchors is None:
        raise TypeError(f"pattern {pattern.name} of {pass_.name} begins with no operator")
    # Most patterns need an operator that a graph has not.
    if not all(
        any(map(graph.by_operator.get, some)) for formula in formulas for some in required(formula)
    ):
        return
    if among is None:
        among = [node for key in anchors for node in graph.by_operator.get(key, ())]
    nodes = sorted((n for n in among if n.operator in anchors), key=lambda n: n.position)
    absent = dict.fromkeys(
        name for p in pass_.patterns for formula in p.formulas for name in names(formula)
    )
    for node in nodes:
        match = matcher.match(formulas, node, absent) if node.is_in_graph else None
        if match is not None and (pattern.where is None or pattern.where(match)):
            yield match


def _endless(pass_: Pass, pattern: Pattern, times: int, graph: Graph) -> FusioncError:
    hint = f'switch it off: --optimization_switch "{pass_.name}:off"'
    if pass_.place:
        hint = f"what it puts there must not match again (operands may be in either order); correct it, or {hint}"
    what = f"{pass_.name} does not come to an end: pattern {pattern.name} took effect {times} times"
    where = ", ".join(filter(None, (pass_.place, f"graph {graph.id}")))
    return FusioncError(what, where=where, hint=hint, code="E20007")


def _is_ours(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(_PACKAGE)


def _failure(
    pass_: Pass, pattern: Pattern, nodes: Sequence[str], error: BaseException
) -> FusioncError:
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        f"{f.filename}:{f.lineno}"
        for f in frames
        if not _is_ours(f) and "site-packages" not in f.filename
    ]
    # Of a user's pass the last line of its own.
    place = own[-1] if own else pass_.place or f"{frames[-1].filename}:{frames[-1].lineno}"
    kind, todo = (
        (FusioncError, "correct the pass, or") if pass_.place else (Defect, "please report it, and")
    )
    where = f"{place}, pattern {pattern.name} at {', '.join(nodes) or 'the graph'}"
    hint = f'{todo} switch it off: --optimization_switch "{pass_.name}:off"'
    return kind(f"{pass_.name} failed: {said(error)}", where=where, hint=hint, code="E20007")
