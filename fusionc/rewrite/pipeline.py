"""Run all enabled passes in order, in rounds, until a whole round changes nothing. Within a round
each pass runs until it finds no further match: its rewrites are checked, committed and counted.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from time import perf_counter

import numpy as np

from fusionc.errors import Defect, FusioncError, Terminated, said
from fusionc.exactness import decisions_ahead
from fusionc.exactness.rounding_rewrites import reason_to_be_exact
from fusionc.integer_groups.refused_rewrites import reason_to_refuse
from fusionc.model.graph import Graph, Model, Node
from fusionc.model.operators import KERNELS
from fusionc.model.questions import Refused, refuse
from fusionc.rewrite import matcher
from fusionc.rewrite.definition import Pass, Pattern
from fusionc.rewrite.log import Commit, PatternCount, RewriteLog
from fusionc.rewrite.match import Match, Miss
from fusionc.rewrite.pattern import names
from fusionc.rewrite.soundness import Replacement, check, check_private
from fusionc.rewrite.splice import splice
from fusionc.rewrite.tape import Tape

ROUNDS = 50
_PACKAGE = str(Path(__file__).parents[1])


@np.errstate(all="ignore")  # Tape.const refuses constants that overflow
def run(
    model: Model,
    passes: Sequence[Pass],
    log: RewriteLog,
    progress: Callable[[str], None] = lambda _: None,
    after: Callable[[str], None] = lambda _: None,
) -> list[PatternCount]:
    """Run each pass on the main graph and on every subgraph and function, and count its rewrites.

    The result has a record for each pattern and graph, in the order of `passes`. A record has the
    number of rewrites in all rounds, and the refusals of the last search. If the pattern never took
    effect, the refusals are those of the last search that had any. `progress` is called with the
    name of each pass before it runs. `after` is called with the name of each pass that took effect.
    Raises FusioncError if the passes undo each other's rewrites.
    """
    counts: dict[tuple[int, str, str], PatternCount] = {}
    order = {
        (p.name, q.name): (i, j) for i, p in enumerate(passes) for j, q in enumerate(p.patterns)
    }
    idle_at: dict[str, int] = {}  # the model version in which each pass found no further match
    for _ in range(ROUNDS):
        busy = []
        for pass_ in passes:
            if idle_at.get(pass_.name) == model.version:
                continue
            progress(pass_.name)
            if _run_pass(model, pass_, log, counts):
                busy.append(pass_.name)
                after(pass_.name)
            else:
                idle_at[pass_.name] = model.version
        if not busy or log.is_closed:
            return sorted(
                counts.values(), key=lambda c: (order[c.pass_name, c.pattern], c.graph_id)
            )
    what = f"the passes do not settle in {ROUNDS} rounds: {', '.join(busy)} still take effect"
    places = ", ".join(p.place for p in passes if p.place and p.name in busy)
    hint = f'switch one of them off: --optimization_switch "{busy[-1]}:off"'
    raise FusioncError(what, where=places, hint=hint, code="E20007")


def _run_pass(
    model: Model, pass_: Pass, log: RewriteLog, counts: dict[tuple[int, str, str], PatternCount]
) -> bool:
    effected = False
    model.types.begin_pass()
    decisions_ahead.forget(model)
    for graph in rewritable_graphs(model):
        for pattern in pass_.patterns:
            new = apply(pass_, pattern, graph, log)
            effected |= new.effected > 0
            total = counts.setdefault((graph.id, pass_.name, pattern.name), new)
            if total is not new:
                total.at = total.at if total.matched else new.at
                total.effected += new.effected
                total.seconds += new.seconds
                # Older refusals stay, because a user may ask why a pass did nothing. Another pass
                # may have rewritten the refused places since then.
                if new.refused or total.effected:
                    total.refused = new.refused
                    total.waiting = new.waiting
    return effected


def rewritable_graphs(model: Model) -> Iterator[Graph]:
    """The graphs that passes may change. Passes may add and remove graphs during the iteration."""
    for graph in model.graphs:
        # functions in the domain KERNELS stay, because kernels were compiled from them
        if is_alive(graph) and getattr(graph.proto, "domain", "") != KERNELS:
            yield graph


def is_alive(graph: Graph) -> bool:
    """Whether a graph is still part of the model. The node around a subgraph, or a function, may
    have been removed.
    """
    if graph.is_function:
        return graph.model.functions.get(graph.function_key) is graph
    return graph.owner is None or (graph.owner.is_in_graph and is_alive(graph.owner.graph))


def apply(pass_: Pass, pattern: Pattern, graph: Graph, log: RewriteLog) -> PatternCount:
    """Run one pattern of a pass on a graph until a whole search rewrites nothing.

    The refusals of the last search are counted. Raises FusioncError if the pass fails or does not
    end.
    """
    count = PatternCount(graph.id, pass_.kind, pass_.name, pattern.name)
    # for most patterns the graph lacks a required operator
    for group in pattern.required_operators:
        if not any(map(graph.by_operator.get, group)):
            return count
    run = _PatternRun(pass_, pattern, graph, log, count)
    start = perf_counter()
    try:
        run.search_until_rest()
    except BaseException as error:  # a user's own pass may raise any exception
        is_from_fusionc = isinstance(error, FusioncError) and _is_in_fusionc(
            traceback.extract_tb(error.__traceback__)[-1]
        )
        if is_from_fusionc or isinstance(error, Terminated | KeyboardInterrupt):
            raise
        raise _failure(pass_, pattern, run.labels, error) from error
    # An empty Counter takes as long as the search of most patterns.
    if run.refused:
        count.refused = Counter(refusal.reason for refusal in run.refused)
        count.waiting = Counter(refusal.opset for refusal in run.refused if refusal.opset)
    count.seconds = perf_counter() - start
    return count


class _PatternRun:
    """One pattern of a pass, run on a graph."""

    def __init__(
        self, pass_: Pass, pattern: Pattern, graph: Graph, log: RewriteLog, count: PatternCount
    ) -> None:
        self.pass_ = pass_
        self.pattern = pattern
        self.graph = graph
        self.log = log
        self.count = count
        self.refused: list[Refused] = []  # the refusals of the last search
        self.labels: tuple[str, ...] = ()  # the labels of the current match
        # More rewrites than this mean that the pass does not end. Values count as well, because
        # constants and functions are rewritten, too.
        self.bound = 10 * (len(graph.nodes) + len(graph.values)) + 1000

    def search_until_rest(self) -> None:
        """Search the whole graph until a search rewrites nothing.

        After a search that rewrote something, only the new nodes are searched, until there are no
        more of them; then follows the next whole search. Otherwise a pass that moves a node far,
        step by step, would need a whole search for each step.
        """
        fresh: list[Node] | None = None  # nodes made since the last search; None: search all
        before = -1
        while (fresh is not None or before < self.count.effected) and not self.log.is_closed:
            before = self.count.effected
            if fresh is None:
                self.refused.clear()
            new_nodes = self._search(fresh)
            fresh = None if self.pattern.find else new_nodes or None

    def _search(self, among: Sequence[Node] | None) -> list[Node]:
        """Rewrite every match, and return the new nodes."""
        new_nodes: list[Node] = []
        find = self.pattern.find
        for match in find(self.graph) if find else self._matches(among):
            if self.log.is_closed:
                break
            # a match is stale if an earlier commit has removed a part of it
            if isinstance(match, Miss) or (self.count.effected and match.is_stale):
                continue
            new_nodes += self._rewrite(match)
        return new_nodes

    def _matches(self, among: Sequence[Node] | None) -> Iterator[Match]:
        """All matches of the formulas. Each match begins at a node that can compute the first
        formula: a node in `among`, or any node if `among` is None. The caller commits a match
        before it takes the next one.
        """
        if self.pattern.anchor_operators is None:
            name = f"{self.pattern.name} of {self.pass_.name}"
            raise TypeError(f"pattern {name} does not begin with an operator")
        formulas = self.pattern.formulas
        absent = absent_names(self.pass_)
        for node in anchors_of(self.pattern, self.graph, among):
            match = matcher.match(formulas, node, absent) if node.is_in_graph else None
            if match is not None and self.pattern.unmet(match) is None:
                yield match

    def _rewrite(self, match: Match) -> list[Node]:
        """Rewrite a match and return the new nodes, or count the match as refused."""
        self.labels = match.labels
        commit = Commit(
            self.log.count + 1, self.graph.id, self.pass_.name, self.pattern.name, self.labels
        )
        try:
            if commit in self.log.left_out:
                refuse(self.log.left_out[commit])
            check_private(match)
            new = replacement_of(self.pass_, self.pattern, match)
            if self.log.examine is not None:
                self.log.examine(commit, self.pass_, match, new, new.tape)
        except Refused as refusal:
            self.refused.append(refusal)
            return []
        splice(match, new, self.pass_.name)
        self.count.effected += 1
        self.log.last = commit
        if self.count.effected > self.bound:
            raise _endless(self.pass_, self.pattern, self.count.effected, self.graph)
        return new.nodes


def replacement_of(pass_: Pass, pattern: Pattern, match: Match) -> Replacement:
    """The replacement that a pass builds for a match with private interior values. Raises Refused
    if the pass refuses, or if the replacement is not sound or not exact enough.
    """
    tape = Tape(match.graph)
    results = (pattern.rewrite or pass_.rewrite)(match, tape)
    if results is None:
        results = ()
    elif not isinstance(results, tuple | list):
        results = (results,)
    new = check(match, results, tape)
    _require_exactness(pass_, pattern, match, new)
    return new


def _require_exactness(pass_: Pass, pattern: Pattern, match: Match, new: Replacement) -> None:
    """Refuse a rewrite that may round a value in another way if the last bit of the value decides a
    later result, such as an index. Also refuse a rewrite after which the runtime would no longer
    compute an operator in integers, would misread scales, would round an operand to integers, or
    could not load the model.
    """
    reason = ""
    if pass_.numerics != "bitwise" and not pattern.is_exact:
        reason = reason_to_be_exact(match.nodes, match.outputs)
    whole = pass_.changes_whole_groups
    if reason := reason or reason_to_refuse(match.nodes, new.nodes, new.pairs, whole_groups=whole):
        refuse(reason)


def anchors_of(pattern: Pattern, graph: Graph, among: Iterable[Node] | None = None) -> list[Node]:
    """The nodes at which a pattern may begin, in topological order: nodes in `among`, or all nodes
    of the graph.
    """
    operators = pattern.anchor_operators or ()
    if among is None:
        among = chain.from_iterable(graph.by_operator.get(key, ()) for key in operators)
    return sorted((n for n in among if n.operator in operators), key=lambda n: n.position)


def absent_names(pass_: Pass) -> dict[str, None]:
    """All names that the patterns of a pass capture, each with the value None."""
    formulas = chain.from_iterable(pattern.formulas for pattern in pass_.patterns)
    return dict.fromkeys(chain.from_iterable(map(names, formulas)))


def _endless(pass_: Pass, pattern: Pattern, times: int, graph: Graph) -> FusioncError:
    hint = f'switch it off: --optimization_switch "{pass_.name}:off"'
    if pass_.place:
        cause = "its replacement must not match again (operands match in either order)"
        hint = f"{cause}; correct it, or {hint}"
    what = f"{pass_.name} does not end: pattern {pattern.name} took effect {times} times"
    where = ", ".join(filter(None, (pass_.place, f"graph {graph.id}")))
    return FusioncError(what, where=where, hint=hint, code="E20007")


def _is_in_fusionc(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(_PACKAGE)


def _failure(
    pass_: Pass, pattern: Pattern, nodes: Sequence[str], error: BaseException
) -> FusioncError:
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        f"{f.filename}:{f.lineno}"
        for f in frames
        if not _is_in_fusionc(f) and "site-packages" not in f.filename
    ]
    # for a user's own pass: the last traceback line that is in the user's code
    place = own[-1] if own else pass_.place or f"{frames[-1].filename}:{frames[-1].lineno}"
    kind, todo = (
        (FusioncError, "correct the pass, or") if pass_.place else (Defect, "please report it, and")
    )
    where = f"{place}, pattern {pattern.name} at {', '.join(nodes) or 'the graph'}"
    hint = f'{todo} switch it off: --optimization_switch "{pass_.name}:off"'
    return kind(f"{pass_.name} failed: {said(error)}", where=where, hint=hint, code="E20007")
