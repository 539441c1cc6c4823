"""The table of facts on operators: complete words, known operators, and traits that hold."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from laws import for_each
from onnx import helper

from fusionc.operators import facts
from fusionc.operators.facts import FACTS, Trait, names_with, places_of
from fusionc.runtime.cpu_kernels import has_operator

_OPSET = 23
ROOT = Path(__file__).parents[2] / "fusionc"
# Traits of which the first is a special case of the others.
NARROWER = (
    (Trait.RESHAPES, Trait.SELECTS),
    (Trait.SELECTS, Trait.MOVES),
    (Trait.COMMUTATIVE, Trait.BROADCASTS),
    (Trait.COMPARES, Trait.BROADCASTS),
    (Trait.LEGACY_AXIS, Trait.BROADCASTS),
    (Trait.DIVIDES, Trait.BROADCASTS),
    (Trait.ACTIVATION, Trait.UNARY),
    (Trait.IDEMPOTENT, Trait.UNARY),
    (Trait.INVOLUTION, Trait.UNARY),
    (Trait.KEEPS_ONE, Trait.REDUCES),
    (Trait.KEEPS_WHOLE, Trait.REDUCES),
    (Trait.ROW_NORM, Trait.NORM),
    (Trait.SORTS, Trait.JUMPS),
    (Trait.ZERO_DECIDES, Trait.SIGN_DECIDES),
    (Trait.JOINS_GEMM, Trait.ACTIVATION),
    (Trait.JOINS_CONV, Trait.ACTIVATION),
)
TRAITS = {names_with(trait): trait for trait in Trait}
# Each operator has at most one of these.
APART = (
    {Trait.UNARY, Trait.BROADCASTS, Trait.SELECTS, Trait.REDUCES, Trait.CONVOLUTION, Trait.NORM},
    {Trait.MOVES, Trait.SUMS, Trait.SCALES, Trait.ARITHMETIC, Trait.CONTINUOUS},
    {Trait.NEVER_NEGATIVE, Trait.AT_LEAST_ZERO},
    {Trait.UNIFORM, Trait.APPROXIMATED},
    {Trait.RANDOM, Trait.STATEFUL},
)


@pytest.mark.parametrize(("narrow", "wide"), NARROWER)
def test_a_special_case_is_a_case(narrow: Trait, wide: Trait) -> None:
    assert names_with(narrow) <= names_with(wide)


def test_what_excludes_one_another() -> None:
    assert not {op: row for op, row in FACTS.items() if any(len(row.keys() & s) > 1 for s in APART)}


def test_each_trait_is_used() -> None:
    assert {trait for row in FACTS.values() for trait in row} == set(Trait)


@pytest.mark.parametrize("rows", [facts._STANDARD, facts._TRADITIONAL, facts._MICROSOFT])
def test_each_operator_has_one_row(rows: str) -> None:
    names = [row.split(":")[0] for row in rows.strip().splitlines()]
    assert names == sorted(set(names))


def test_each_operator_exists() -> None:
    known = {(s.domain, s.name) for s in onnx.defs.get_all_schemas_with_history()}
    unknown = {op for op in FACTS if op[0] != "com.microsoft"} - known
    assert unknown == {("", "SimplifiedLayerNormalization")}  # onnxruntime's, in onnx's domain


def test_places_are_inputs() -> None:
    most = Counter[tuple[str, str]]()
    for schema in onnx.defs.get_all_schemas_with_history():
        operator = (schema.domain, schema.name)
        most[operator] = max(most[operator], schema.max_input)
    for trait in Trait:
        for (domain, name), places in places_of(trait).items():
            if places and onnx.defs.has(name, domain):
                assert max(places) < most[domain, name], (name, trait)


def _computed(name: str, *arrays: np.ndarray, times: int = 1) -> np.ndarray:
    """What an operator makes of floats, or of booleans or integers if it takes no floats."""
    inputs = [f"i{at}" for at in range(len(arrays))]
    nodes = [helper.make_node(name, inputs, ["y1"])]
    nodes += [helper.make_node(name, [f"y{k}"], [f"y{k + 1}"]) for k in range(1, times)]
    elem = helper.np_dtype_to_tensor_dtype(arrays[0].dtype)
    values = [helper.make_tensor_value_info(i, elem, None) for i in inputs]
    result = onnx.ValueInfoProto(name=f"y{times}")
    graph = helper.make_graph(nodes, "g", values, [result])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", _OPSET)])
    model = onnx.shape_inference.infer_shapes(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, dict(zip(inputs, arrays, strict=True)))[0]


_NUMBERS = np.array([-np.inf, -1e30, -2.5, -0.5, -0.0, 0.0, 1e-3, 0.5, 1.5, 7, 1e30, np.inf])
_OPERANDS = {
    np.bool_: np.array([False, True]),
    np.uint8: np.arange(256, dtype=np.uint8),
    np.int32: np.arange(-9, 9, dtype=np.int32),
    np.float32: _NUMBERS.astype(np.float32),
}


def _operands(name: str) -> np.ndarray:
    allowed = {
        kind
        for constraint in onnx.defs.get_schema(name, _OPSET, "").type_constraints
        for kind in constraint.allowed_type_strs
    }
    types = {"tensor(float)": np.float32, "tensor(bool)": np.bool_, "tensor(int32)": np.int32}
    return _OPERANDS[next(dtype for kind, dtype in types.items() if kind in allowed)]


@pytest.mark.parametrize("name", sorted(names_with(Trait.IDEMPOTENT)))
def test_twice_is_as_good_as_once(name: str) -> None:
    x = _operands(name)
    np.testing.assert_array_equal(_computed(name, x, times=2), _computed(name, x))


@pytest.mark.parametrize("name", sorted(names_with(Trait.INVOLUTION)))
def test_twice_changes_nothing(name: str) -> None:
    x = _operands(name)
    np.testing.assert_array_equal(_computed(name, x, times=2), x)


@pytest.mark.parametrize("name", sorted(names_with(Trait.COMMUTATIVE)))
def test_operands_change_places(name: str) -> None:
    x = _operands(name)[:, None]
    y = x.T
    np.testing.assert_array_equal(_computed(name, x, y), _computed(name, y, x))


@pytest.mark.parametrize("name", sorted(names_with(Trait.NEVER_NEGATIVE, Trait.AT_LEAST_ZERO)))
def test_nothing_is_negative(name: str) -> None:
    made = _computed(name, _operands(name)[1:-1])  # Softmax of infinities is NaN
    assert (made >= 0).all()
    if name in names_with(Trait.NEVER_NEGATIVE):
        assert not np.signbit(made).any()


@pytest.mark.parametrize(
    "name",
    sorted(
        names_with(Trait.KEEPS_ZERO)
        - names_with(Trait.CASTS, Trait.WINDOW_POOL, Trait.GLOBAL_POOL)
        - {"CumSum", "Div"}  # a sum needs an axis, and 0 / 0 is NaN
    ),
)
def test_a_zero_stays_a_zero(name: str) -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    assert not _computed(name, *[zeros] * (2 if name in names_with(Trait.BROADCASTS) else 1)).any()


def test_onnxruntime_has_its_own_operators() -> None:
    """Those for GPUs only, and those that run Python, are not in the package for processors."""
    own = [name for domain, name in FACTS if domain == "com.microsoft"]
    elsewhere = {name for name in own if not has_operator(name, "com.microsoft", 1)}
    assert elsewhere <= {"PythonOp", "SampleOp"}


def _literal_sets(path: Path) -> Iterator[frozenset[str]]:
    """The sets, tuples and lists of at least three strings that a file writes out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Set | ast.Tuple | ast.List):
            words = [e.value for e in node.elts if isinstance(e, ast.Constant)]
            names = frozenset(word for word in words if isinstance(word, str))
            if len(names) == len(node.elts) >= 3:
                yield names


@for_each(sorted(ROOT.rglob("*.py")), Path.as_posix)
def test_no_room_writes_a_trait_out(path: Path) -> None:
    assert not [TRAITS[names] for names in _literal_sets(path) if names in TRAITS]
