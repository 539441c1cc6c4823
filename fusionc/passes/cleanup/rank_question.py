from collections.abc import Iterator

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constant_arithmetic import single_number
from fusionc.passes._shared.transpose_and_reshape import axes_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, op, refuse, var

_RECURRENT = names_with(Trait.RECURRENT)
_RANK_3_INPUTS = {0, 5, 6}  # of these: x and the initial states
_ADDS = {"Identity": 0, "Unsqueeze": 1, "Squeeze": -1}  # to the rank, for each axis


def _possible_ranks(value: Edge) -> set[int]:
    """The ranks that the branches of an If give its result. Refuses if one of them is unknown."""
    choice = value.producer
    if choice is None or choice.op != "If" or choice.has_references:
        refuse("the value is not the result of an If")
    at = choice.outputs.index(value)
    ranks = {choice.attr(name).outputs[at].rank for name in ("then_branch", "else_branch")}
    if None in ranks:
        refuse("the rank of a branch's result is unknown")
    return ranks


def _choices(answer: Edge, says: bool = True) -> Iterator[tuple[Node, bool]]:
    """The Ifs that depend on an answer, and whether True takes their first branch."""
    for user in answer.outputs:
        if user.graph is not answer.graph:
            continue
        if user.is_op("If"):
            yield user, says
        elif (user.is_op("Not") or user.is_op("Cast")) and (result := user.outputs[0]) is not None:
            yield from _choices(result, says ^ user.is_op("Not"))


def _added(node: Node) -> int | None:
    """The number of axes that a node adds to its first input; None if unknown."""
    if node.domain != "" or node.op not in _ADDS or node.has_references:
        return None
    axes = [] if node.op == "Identity" else axes_of(node)
    return (
        None if axes is None or (node.op == "Squeeze" and not axes) else _ADDS[node.op] * len(axes)
    )


def _rank_in(result: Edge | None, value: Edge, rank: int) -> int | None:
    """The rank of a branch's result if the value has this rank; None if it does not follow."""
    if result is value:
        return rank
    node = None if result is None else result.producer
    added = None if node is None else _added(node)
    inner = None if node is None or added is None else _rank_in(node.inputs[0], value, rank)
    return None if inner is None or added is None else inner + added


def _is_seen(node: Node) -> bool:
    """Whether a node affects an output of its graph; if not, it may never be run."""
    pending = [node]
    seen = {node}
    while pending:
        for value in pending.pop().outputs:
            if value is None:
                continue
            if value.is_output or any(user.graph is not node.graph for user in value.outputs):
                return True
            pending += set(value.outputs) - seen
            seen.update(value.outputs)
    return False


def _wanted_ranks(value: Edge) -> Iterator[int]:
    """The ranks that a value must have for the model to run."""
    for user in value.outputs:
        if user.graph is not value.graph:
            continue
        places = {at for at, operand in enumerate(user.inputs) if operand is value}
        is_recurrent = user.domain == "" and user.op in _RECURRENT
        if is_recurrent and places & _RANK_3_INPUTS and _is_seen(user):
            yield 3
        result = user.outputs[0]
        added = _added(user)
        if result is not None and added is not None:
            yield from (wanted - added for wanted in _wanted_ranks(result))


class RankQuestionPass(Pass):
    """A test of a value's rank becomes a constant if the model fails with every other rank.

    before   Size(Shape(v)) == r as the condition of Ifs whose results go to an LSTM, GRU or RNN,
             where v is the result of an If whose branches give it different ranks
    after    the answer
    refuses  ranks that are unknown; a test with two possible answers; an answer that would let a
             failing model run
    algebra  LSTM, GRU and RNN only take x and initial states of rank 3
    source   torch's LSTMCell, LSTM and GRU as scripts, which test whether there is a batch;
             silero-vad
    """

    patterns = (
        Pattern(
            "Rank", op.Equal(op.Size(op.Shape(var("v"), _as="shape")), const("r"), _as="equal")
        ),
        Pattern(
            "RankSecond",
            op.Equal(const("r"), op.Size(op.Shape(var("v"), _as="shape")), _as="equal"),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        if m.shape.attr("start", 0) or m.shape.attr("end") is not None:
            refuse("only a part of the shape is counted")
        asked = int(single_number(m.r, m.equal.outputs[0]))
        ranks = _possible_ranks(m.v)
        answers = {rank == asked for rank in ranks if not self._fails(m, rank, rank == asked)}
        if len(answers) != 1:
            refuse("both answers are possible")
        (answer,) = answers
        if not all(self._fails(m, rank, answer) for rank in ranks if (rank == asked) is not answer):
            refuse("the answer would let a failing model run")
        return new.const(np.array(answer))

    def _fails(self, m: Match, rank: int, answer: bool) -> bool:
        """Whether the model fails with a value of this rank if the test has this answer."""
        for choice, says in _choices(m.equal.outputs[0]):
            branch = choice.attr("then_branch" if answer is says else "else_branch")
            for inner, result in zip(branch.outputs, choice.outputs, strict=True):
                result_rank = None if result is None else _rank_in(inner, m.v, rank)
                if result is None or result_rank is None:
                    continue
                if any(result_rank != wanted for wanted in _wanted_ranks(result)):
                    return True
        return False
