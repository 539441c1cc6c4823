from collections.abc import Iterator

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constant_arithmetic import single_number
from fusionc.passes._shared.transpose_and_reshape import axes_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, op, refuse, var

_RECURRENT = names_with(Trait.RECURRENT)
_RANK_3_INPUTS = {0, 5, 6}  # positions of x and the initial states of a recurrent operator
_RANK_CHANGE = {"Identity": 0, "Unsqueeze": 1, "Squeeze": -1}  # change of the rank for each axis


def _possible_ranks(value: Edge) -> set[int]:
    """The ranks of an If's result in its two branches. Refuses if one of them is unknown."""
    if_node = value.producer
    if if_node is None or if_node.op != "If" or if_node.has_references:
        refuse("the value is not the result of an If")
    position = if_node.outputs.index(value)
    ranks = {if_node.attr(name).outputs[position].rank for name in ("then_branch", "else_branch")}
    if None in ranks:
        refuse("the rank of a branch's result is unknown")
    return ranks


def _dependent_ifs(answer: Edge, is_then: bool = True) -> Iterator[tuple[Node, bool]]:
    """The Ifs that depend on an answer. For each of them, whether the answer True selects its
    then_branch.
    """
    for user in answer.outputs:
        if user.graph is not answer.graph:
            continue
        if user.is_op("If"):
            yield user, is_then
        elif (user.is_op("Not") or user.is_op("Cast")) and (result := user.outputs[0]) is not None:
            yield from _dependent_ifs(result, is_then ^ user.is_op("Not"))


def _rank_change(node: Node) -> int | None:
    """The number of axes that a node adds to its first input; None if unknown."""
    if node.domain != "" or node.op not in _RANK_CHANGE or node.has_references:
        return None
    axes = [] if node.op == "Identity" else axes_of(node)
    return (
        None
        if axes is None or (node.op == "Squeeze" and not axes)
        else _RANK_CHANGE[node.op] * len(axes)
    )


def _rank_of_result(result: Edge | None, value: Edge, rank: int) -> int | None:
    """The rank of a branch's result if `value` has the rank `rank`; None if it cannot be
    derived.
    """
    if result is value:
        return rank
    node = None if result is None else result.producer
    change = None if node is None else _rank_change(node)
    inner = None if node is None or change is None else _rank_of_result(node.inputs[0], value, rank)
    return None if inner is None or change is None else inner + change


def _affects_output(node: Node) -> bool:
    """Whether a node affects an output of its graph. If it does not, it may never run."""
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


def _required_ranks(value: Edge) -> Iterator[int]:
    """The ranks that the users of a value require."""
    for user in value.outputs:
        if user.graph is not value.graph:
            continue
        positions = {position for position, operand in enumerate(user.inputs) if operand is value}
        is_recurrent = user.domain == "" and user.op in _RECURRENT
        if is_recurrent and positions & _RANK_3_INPUTS and _affects_output(user):
            yield 3
        result = user.outputs[0]
        change = _rank_change(user)
        if result is not None and change is not None:
            yield from (required - change for required in _required_ranks(result))


class RankQuestionPass(Pass):
    """A test of a value's rank becomes a constant if the model would fail with any other rank.

    before   Size(Shape(v)) == r as the condition of Ifs whose results are inputs of an LSTM, GRU or
             RNN; v is the result of an If whose branches have different ranks
    after    the answer, True or False
    refuses  unknown ranks; a test for which both answers are possible; an answer that would let a
             failing model run
    algebra  LSTM, GRU and RNN require rank 3 for x and the initial states
    source   torch's LSTMCell, LSTM and GRU, exported as scripts, test whether there is a batch;
             silero-vad is an example
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
            refuse("the Shape covers only a part of the axes")
        tested_rank = int(single_number(m.r, m.equal.outputs[0]))
        ranks = _possible_ranks(m.v)
        answers = {
            rank == tested_rank for rank in ranks if not self._fails(m, rank, rank == tested_rank)
        }
        if len(answers) != 1:
            refuse("both answers are possible")
        (answer,) = answers
        if not all(
            self._fails(m, rank, answer) for rank in ranks if (rank == tested_rank) is not answer
        ):
            refuse("the answer would let a failing model run")
        return new.const(np.array(answer))

    def _fails(self, m: Match, rank: int, answer: bool) -> bool:
        """Whether the model fails if m.v has this rank and the test has this answer."""
        for if_node, is_then in _dependent_ifs(m.equal.outputs[0]):
            branch = if_node.attr("then_branch" if answer is is_then else "else_branch")
            for inner, result in zip(branch.outputs, if_node.outputs, strict=True):
                result_rank = None if result is None else _rank_of_result(inner, m.v, rank)
                if result is None or result_rank is None:
                    continue
                if any(result_rank != required for required in _required_ranks(result)):
                    return True
        return False
