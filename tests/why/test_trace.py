"""Each word of the pattern language: the largest part that is there, and the first thing that is
not.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from harness import parse

from fusionc.rewrite import (
    among,
    const,
    each,
    either,
    keep,
    known,
    matcher,
    maybe,
    op,
    rest,
    same,
    var,
)
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.inference import typed_model
from fusionc.why.first_reason import first_reason
from fusionc.why.trace import trace

x = var("x")
y = var("y")
RELU = op.Relu(x)
SPLIT = same(op.Split(x, rest("sizes")))
TWICE = "the pattern has one and the same Relu in several places"


@dataclass(frozen=True)
class Case:
    """A formula, or several, at the node ‹y› of a graph of these nodes, how many operators fit, and
    the reason.
    """

    formula: Formula | tuple[Formula, ...]
    nodes: str
    fitting: int
    reason: str


CASES = {
    "an alternative": Case(
        op.Exp(either(op.Relu(x * 2.0), op.Neg(op.Abs(x)))),
        "[m] m = Mul (x, three) [r] r = Relu (m) [y] y = Exp (r)",
        3,
        "Mul ‹m›: second operand ‹three› is 3.0, not 2.0",
    ),
    "no alternative": Case(
        op.Exp(either(op.Relu(x), const("c"))),
        "[r] r = Abs (x) [y] y = Exp (r)",
        1,
        "Exp ‹y›: first input ‹r› is made by Abs ‹r›, not by Relu or a constant",
    ),
    "an alternative inside another": Case(
        op.Exp(either(op.Relu(either(op.Abs(x), op.Neg(x))), op.Neg(x))),
        "[a] a = Sign (x) [r] r = Relu (a) [y] y = Exp (r)",
        2,
        "Relu ‹r›: first input ‹a› is made by Sign ‹a›, not by Abs or Neg",
    ),
    "one node in two places": Case(
        op.Add(op.Exp(RELU), op.Neg(RELU)),
        "[a] a = Relu (x) [b] b = Relu (x) [e] e = Exp (a) [n] n = Neg (b) [y] y = Add (e, n)",
        4,
        f"Neg ‹n›: first input ‹b› is made by Relu ‹b›: {TWICE}",
    ),
    "one node in two places, with a fault": Case(
        op.Add(op.Exp(op.Relu(x * 2.0)), op.Neg(op.Relu(x * 2.0))),
        (
            "[m] m = Mul (x, three) [a] a = Relu (m) [e] e = Exp (a) [n] n = Neg (a) [y] y = Add "
            "(e, n)"
        ),
        7,
        "Mul ‹m›: second operand ‹three› is 3.0, not 2.0",
    ),
    "one constant in two places": Case(
        op.Sub(op.Div(x, const("c")), const("c")),
        "[d] d = Div (x, two) [y] y = Sub (d, three)",
        2,
        (
            "Sub ‹y›: second operand ‹three› is not ‹two›: the pattern has the same value in "
            "both places"
        ),
    ),
    "operands in either order": Case(
        op.Mul(op.Add(x, 1.0), op.Sub(x, 2.0)),
        "[a] a = Add (two, x) [s] s = Sub (x, two) [y] y = Mul (s, a)",
        3,
        "Add ‹a›: first operand ‹two› is 2.0, not 1.0",
    ),
    "among its inputs": Case(
        op.Concat(among(op.Relu(x * 2.0))),
        "[m] m = Mul (x, three) [r] r = Relu (m) [n] n = Neg (x) [y] y = Concat <axis = 0> (n, r)",
        3,
        "Mul ‹m›: second operand ‹three› is 3.0, not 2.0",
    ),
    "none among its inputs": Case(
        op.Concat(among(op.Relu(x))),
        "[n] n = Neg (x) [y] y = Concat <axis = 0> (n, x)",
        1,
        "Concat ‹y›: none of its inputs is made by Relu",
    ),
    "each of its inputs": Case(
        op.Concat(each(op.Relu(x * 2.0))),
        """[l] l = Mul (x, two) [m] m = Mul (x, three) [r] r = Relu (l) [s] s = Relu (m)
        [y] y = Concat <axis = 0> (r, s)""",
        3,
        "Mul ‹m›: second operand ‹three› is 3.0, not 2.0",
    ),
    "what only some of its inputs have": Case(
        op.Concat(each(op.Clip(x, maybe(op.Neg(const("low")))))),
        "[n] n = Neg (w) [a] a = Clip (x) [b] b = Clip (x, n) [y] y = Concat <axis = 0> (a, b)",
        3,
        "Neg ‹n›: first input ‹w› is not a constant: it is an input of the graph",
    ),
    "no input is left for each": Case(
        op.Concat(x, each(op.Relu(x))),
        "[y] y = Concat <axis = 0> (x)",
        1,
        "Concat ‹y›: second input is left out",
    ),
    "pieces of one node": Case(
        op.Concat(each(SPLIT[...])),
        """[s] a, b = Split <num_outputs = 2> (x) [t] c, d = Split <num_outputs = 2> (x)
        [y] y = Concat <axis = 0> (a, d)""",
        2,
        f"Concat ‹y›: second input ‹d› is made by Split ‹t›: {TWICE.replace('Relu', 'Split')}",
    ),
    "what stays": Case(
        op.Exp(keep(op.Relu(op.Abs(x)))),
        "[n] n = Neg (x) [r] r = Relu (n) [y] y = Exp (r)",
        2,
        "Relu ‹r›: first input ‹n› is made by Neg ‹n›, not by Abs",
    ),
    "what may be left out": Case(
        op.Clip(x, maybe(const("low")), maybe(const("high"))),
        "[y] y = Clip (x, w, three)",
        1,
        "Clip ‹y›: second input ‹w› is not a constant: it is an input of the graph",
    ),
    "what is left out": Case(
        op.Clip(x, const("low"), const("high")),
        "[y] y = Clip (x, two)",
        1,
        "Clip ‹y›: third input is left out",
    ),
    "too many inputs": Case(
        op.Clip(x, maybe(const("low"))),
        "[y] y = Clip (x, two, three)",
        1,
        "Clip ‹y›: has 3 inputs, not at most 2",
    ),
    "known before the model runs": Case(
        op.Add(known("c"), op.Relu(x)),
        "[r] r = Relu (x) [y] y = Add (x, r)",
        2,
        (
            "Add ‹y›: first operand ‹x› is not computed from constants alone: it is an input of "
            "the graph"
        ),
    ),
    "an output of an operator": Case(
        op.Exp(op.Split(x)[1]),
        "[s] a, b = Split <num_outputs = 2> (x) [y] y = Exp (a)",
        1,
        "Exp ‹y›: first input ‹a› is the first output of Split ‹s›, not the second",
    ),
    "an attribute that is left out": Case(
        op.Transpose(op.Neg(x), perm=(0, 1)),
        "[n] n = Neg (x) [y] y = Transpose (n)",
        2,
        "Transpose ‹y›: attribute perm is missing, and would have to be [0, 1]",
    ),
    "another output": Case(
        (op.Exp(RELU), op.Neg(RELU)),
        "[r] r = Relu (x) [y] y = Exp (r) [n] n = Abs (r)",
        2,
        "Exp ‹y›: the pattern's second output, made by Neg, is missing",
    ),
    "a part of another output": Case(
        (op.Exp(RELU), RELU * 2.0),
        "[r] r = Relu (x) [y] y = Exp (r) [n] n = Mul (r, three)",
        3,
        "Mul ‹n›: second operand ‹three› is 3.0, not 2.0",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_largest_part_that_is_there(case: Case) -> None:
    constants = "float two = {2}, float three = {3}"
    graph = f"agraph (float[4,4] x, float w) => (float[A,B] y) <{constants}> {{ {case.nodes} }}"
    model = typed_model(parse(graph), ".")
    formulas = case.formula if isinstance(case.formula, tuple) else (case.formula,)
    anchor = next(node for node in model.main.nodes if node.name == "y")
    assert matcher.match(formulas, anchor, {}) is None
    furthest = trace(formulas, anchor)
    assert (first_reason(furthest, anchor), len(furthest.operators)) == (case.reason, case.fitting)
