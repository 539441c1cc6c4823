"""The pattern language: a pattern is written as the formula that it matches. This file has only the
data; `matcher` does the search.

    x, W, B = var("x"), const("W"), const("B")
    op.Add(op.Conv(x, W, maybe(B), _as="conv"), const("bias"))
    x * (op.Erf(x / math.sqrt(2)) + 1) * 0.5
    op.Concat(each(op.Conv(same(op.Split(x, _as="split"))[...], W, maybe(B))), _as="concat")

- A name used twice means the same value. A sub-formula object used twice means the same node.
- Operands of commutative operators match in either order.
- A number matches a constant of any rank with one element of that value. `None` as an operand
  matches an input that is left out.
- A keyword is an attribute that must have that value, explicitly or by default. `_as` names the
  node for the rewrite.
- `f[1]` is the second output of a node, `f[...]` is any of its outputs, and `f` is the first.
- `known("W")` is a stored constant or a value computed from constants, for example by
  ConstantOfShape or Cast.
- Interior values must be private: the engine refuses a match if they are used elsewhere. `keep(f)`
  exempts `f`, which then stays in the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from numbers import Real
from types import EllipsisType
from typing import Any, Generic, TypeVar

from fusionc.model.operators import COMMUTATIVE, MICROSOFT

T = TypeVar("T")
# An ordered set of (domain, name): the operators appear as they do in the pattern.
Operators = dict[tuple[str, str], None]


class Arithmetic(Generic[T]):
    """Python's arithmetic operators as ONNX operators: `a + b` is `_apply("Add", a, b)`."""

    def _apply(self, operator: str, *operands: Any) -> T:
        raise NotImplementedError

    def __add__(self, other: Any) -> T:
        return self._apply("Add", self, other)

    def __radd__(self, other: Any) -> T:
        return self._apply("Add", other, self)

    def __sub__(self, other: Any) -> T:
        return self._apply("Sub", self, other)

    def __rsub__(self, other: Any) -> T:
        return self._apply("Sub", other, self)

    def __mul__(self, other: Any) -> T:
        return self._apply("Mul", self, other)

    def __rmul__(self, other: Any) -> T:
        return self._apply("Mul", other, self)

    def __truediv__(self, other: Any) -> T:
        return self._apply("Div", self, other)

    def __rtruediv__(self, other: Any) -> T:
        return self._apply("Div", other, self)

    def __matmul__(self, other: Any) -> T:
        return self._apply("MatMul", self, other)

    def __pow__(self, other: Any) -> T:
        return self._apply("Pow", self, other)

    def __neg__(self) -> T:
        return self._apply("Neg", self)


class Formula(Arithmetic["OpFormula"]):
    """Base of all parts of a pattern."""

    def _apply(self, operator: str, *operands: Any) -> OpFormula:
        return op[operator](*operands)

    def parts(self) -> tuple[Formula, ...]:
        """The formulas directly below this one."""
        return ()


@dataclass(frozen=True, eq=False)
class Var(Formula):
    """Any value, captured as `m.<name>`. The same name always means the same value."""

    name: str


@dataclass(frozen=True, eq=False)
class Const(Formula):
    """A constant, captured as `m.<name>`."""

    name: str = ""
    value: float | None = None  # the single element; None means any constant
    is_stored: bool = True  # False also allows a value that is computed from constants


@dataclass(frozen=True, eq=False)
class OpFormula(Formula):
    """A node whose operator is one of `operators`, each a pair (domain, name). If this formula is
    an operand, the operand is the first output of the node.
    """

    operators: tuple[tuple[str, str], ...]
    args: tuple[Formula, ...]
    attributes: dict[str, Any]
    label: str

    def __getitem__(self, index: int | EllipsisType) -> Out:
        return Out(self, None if index is ... else index)

    def __iter__(self) -> Iterator[Out]:
        raise TypeError("name the outputs by their index, as in split[0]")

    @cached_property
    def is_commutative(self) -> bool:
        """Whether the two operands match in either order."""
        return len(self.args) == 2 and all(
            d == "" and name in COMMUTATIVE for d, name in self.operators
        )

    @cached_property
    def takes_all(self) -> bool:
        """Whether the last argument matches all remaining inputs."""
        return isinstance(self.args[-1] if self.args else None, Rest | Each | Among)

    @cached_property
    def demands(self) -> tuple[tuple[int, Operators | None], ...]:
        """The requirements on the producers of inputs. Each has the index of an input and the
        operators that may produce the input; `None` as operators means a stored constant.
        """
        every = (
            (index, makers(arg), isinstance(arg, Const) and arg.is_stored)
            for index, arg in enumerate(self.args)
        )
        return tuple((index, some) for index, some, is_stored in every if some or is_stored)

    def parts(self) -> tuple[Formula, ...]:
        return self.args


@dataclass(frozen=True, eq=False)
class Out(Formula):
    """One output of a node."""

    node: OpFormula | Same
    index: int | None  # None: any output

    def __post_init__(self) -> None:
        if self.index is not None and self.index < 0:
            raise ValueError("the index of an output must not be negative; the first output is 0")

    def parts(self) -> tuple[Formula, ...]:
        return (self.node,)


@dataclass(frozen=True, eq=False)
class _Around(Formula):
    """The base of formulas that contain one inner formula and change how it matches."""

    inner: Formula

    def parts(self) -> tuple[Formula, ...]:
        return (self.inner,)


@dataclass(frozen=True, eq=False)
class Either(Formula):
    """The first alternative that matches."""

    alternatives: tuple[Formula, ...]

    def parts(self) -> tuple[Formula, ...]:
        return self.alternatives


@dataclass(frozen=True, eq=False)
class Omitted(Formula):
    """An input that must be left out."""


class Maybe(_Around):
    """An input that may be left out. Its names are then captured as None."""


@dataclass(frozen=True, eq=False)
class Rest(Formula):
    """All remaining inputs, captured as the list `m.<name>`."""

    name: str


class Each(_Around):
    """All remaining inputs, at least one. Each input matches `inner`. Each name in `inner` captures
    a list with an item for each input.
    """


class Among(_Around):
    """All remaining inputs. At least one of them matches `inner`; the first such input is
    captured.
    """


@dataclass(frozen=True, eq=False)
class Same(_Around):
    """Inside `each`: the same node for all inputs, captured once."""

    inner: OpFormula

    def __getitem__(self, index: int | EllipsisType) -> Out:
        return Out(self, None if index is ... else index)


class Keep(_Around):
    """A node that is matched and not replaced. It stays in the graph and may be used elsewhere."""


AROUND = (Maybe, Keep, Same, Each, Among)  # the formulas that contain one inner formula


class _Operators:
    """The constructor of operator formulas. `op.Conv(x, W)` matches one operator.
    `op["Conv", "ConvTranspose"](x, W)` matches either of two operators.
    """

    def __init__(self, domain: str) -> None:
        self._domain = domain

    def __getattr__(self, name: str) -> Callable[..., OpFormula]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, names: str | tuple[str, ...]) -> Callable[..., OpFormula]:
        operators = tuple(
            (self._domain, name) for name in ((names,) if isinstance(names, str) else names)
        )

        def formula(*args: Formula | float | None, _as: str = "", **attributes: Any) -> OpFormula:
            return OpFormula(operators, tuple(map(operand, args)), attributes, _as)

        return formula


op = _Operators("")
ms = _Operators(MICROSOFT)
var = Var
const = Const
rest = Rest
maybe = Maybe
each = Each
among = Among
same = Same
keep = Keep


def known(name: str) -> Const:
    """A constant, or a value computed only from constants. Such a value may be too large to be
    folded.
    """
    return Const(name, is_stored=False)


def either(*alternatives: Formula) -> Either:
    """The first of these formulas that matches."""
    return Either(alternatives)


def operand(written: Formula | float | None) -> Formula:
    """The formula for an operand that is written as a formula, a number or None. Raises TypeError
    for anything else.
    """
    if written is not None and not isinstance(written, Formula | Real):
        raise TypeError(f"{written!r:.60} is neither a part of a pattern nor a number")
    if isinstance(written, Formula):
        return written
    return Omitted() if written is None else Const(value=written)


def walk(formula: Formula) -> Iterator[Formula]:
    """The formula and all formulas below it. Each comes once, even if several others contain it."""
    seen = set[Formula]()
    pending = [formula]
    while pending:
        if (part := pending.pop()) not in seen:
            seen.add(part)
            pending += reversed(part.parts())
            yield part


@cache
def makers(formula: Formula) -> Operators | None:
    """The operators that can compute a formula, in the order of the pattern. `None` means that
    every operator could.
    """
    match formula:
        case OpFormula(operators=operators):
            return dict.fromkeys(operators)
        case Out(node=inner) | Keep(inner) | Same(inner):
            return makers(inner)
        case Either(alternatives):
            groups = [makers(alternative) for alternative in alternatives]
            return (
                None if None in groups else dict.fromkeys(o for some in groups for o in some or ())
            )
        case _:
            return None


@cache
def required(formula: Formula) -> tuple[Operators, ...]:
    """Groups of operators. A graph can match the formula only if it contains at least one operator
    of every group.
    """
    own = makers(formula) if isinstance(formula, OpFormula | Either) else None
    parts = () if isinstance(formula, Maybe | Either) else formula.parts()
    return (*((own,) if own else ()), *(group for part in parts for group in required(part)))


@cache
def operators_in(formula: Formula) -> frozenset[OpFormula]:
    """The operators of a formula. From an `either`, only the operators of its smallest alternative
    are included.
    """
    parts = [operators_in(part) for part in formula.parts()]
    if isinstance(formula, Either):
        return min(parts, key=len)
    own = [frozenset([formula])] if isinstance(formula, OpFormula) else []
    return frozenset[OpFormula]().union(*own, *parts)


@cache
def names(formula: Formula) -> tuple[str, ...]:
    """All names that the formula captures."""
    own = formula.label if isinstance(formula, OpFormula) else getattr(formula, "name", "")
    every = [own, *(name for part in formula.parts() for name in names(part))]
    return tuple(dict.fromkeys(filter(None, every)))
