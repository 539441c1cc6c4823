"""`register_replacement`: makes a pass from two functions. One describes a subgraph, the other
builds its replacement.

def search(x, w, b):
    return op.Add(op.MatMul(x, w), b)

def replace(x, w, b):
    return op.Gemm(x, w, b)

fusionc.register_replacement(search, replace, extra_check=lambda m: m.x.rank == 2)
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

from fusionc.custom.builder import BuiltValue, CapturedAttributes, building, searching, to_edge
from fusionc.errors import UsageError
from fusionc.model.graph import Edge
from fusionc.rewrite import Match, Pass, Pattern, Tape, UBFusionPass, refuse
from fusionc.rewrite.pattern import Const, Each, Either, Formula, OpFormula, Out, Var, names

# names that mean several passes in switch files and --optimization_switch
RESERVED = ("ALL", "forbidden_close_pass")
_KINDS = ("GraphFusion", "UBFusion")
REGISTERED: list[Pass] = []  # in the order of registration
_CHECK = "the extra check refuses the match"


def register_replacement(
    search_fn: Callable[..., Any],
    replace_fn: Callable[..., Any],
    example_inputs: Sequence[Any] | None = None,
    *,
    extra_check: Callable[[Match], bool] | None = None,
    scalar_workaround: Mapping[str, float] | None = None,
    skip_duplicates: bool = False,
    name: str | None = None,
    kind: Literal["GraphFusion", "UBFusion"] = "GraphFusion",
) -> None:
    """Register a pass that replaces each subgraph that `search_fn` describes by the result of
    `replace_fn`.

    Both functions have the same arguments. An argument is a value of the model; the same argument
    is the same value. Other nodes may use the values that the search function returns, but not the
    values in between. Arguments in `scalar_workaround` are numbers: in the search, a constant of
    one element or an attribute; in the replacement, the number in the model. `extra_check` gets the
    match, whose attributes are the arguments, and returns whether to replace it. `example_inputs`
    exists for compatibility with TorchAir; only its length is checked. The pass has the name `name`
    (default: the name of the search function), and is switched, counted and logged like any other.

    Raises UsageError if the functions do not fit together, or if the search is already registered
    and `skip_duplicates` is False.
    """
    place = _place(search_fn)
    title = _title(search_fn, name)
    arguments = _arguments(search_fn, title, place)
    if problem := _problem_of_options(scalar_workaround, extra_check, kind):
        raise _usage_error(f"{title}: {problem}", place)
    scalars = dict(scalar_workaround or {})
    _check_arguments(arguments, replace_fn, example_inputs, scalars, title, place)
    with searching() as search:
        formulas = search_fn(*(Const(a) if a in scalars else Var(a) for a in arguments))
    roots = _as_tuple(formulas)
    if problem := _problem_of_search(roots, arguments, search):
        raise _usage_error(f"{title}: the search function {problem}", place)
    key = repr([_structure(root, {}) for root in roots])
    is_duplicate = key in [getattr(p, "search", None) for p in REGISTERED]
    if is_duplicate and skip_duplicates:
        return
    _check_is_new(title, is_duplicate, place)
    rewrite = _rewrite_of(replace_fn, arguments, scalars, search, extra_check)
    members = {
        "__doc__": f"{_summary(search_fn, replace_fn)}\n\nsource   {place}",
        "patterns": (Pattern(title, roots, rewrite),),
        "numerics": "rounding",
        "search": key,
        "place": place,
    }
    base = UBFusionPass if kind == "UBFusion" else Pass
    REGISTERED.append(type(title, (base,), members)())


def _title(search_fn: object, name: str | None) -> str:
    return str(getattr(search_fn, "__name__", "") if name is None else name)


def _as_tuple(returned: Any) -> tuple[Any, ...]:
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def _summary(search_fn: Callable[..., Any], replace_fn: Callable[..., Any]) -> str:
    written = search_fn.__doc__ or f"{search_fn.__name__} becomes {replace_fn.__name__}."
    return inspect.cleandoc(written)


def _problem_of_options(scalar_workaround: object, extra_check: object, kind: str) -> str:
    """The error in the options of a call; empty if there is none."""
    if scalar_workaround is not None and not isinstance(scalar_workaround, Mapping):
        return "scalar_workaround is not a mapping of arguments to numbers"
    if extra_check is not None and not callable(extra_check):
        return "extra_check is not a function"
    return "" if kind in _KINDS else f'kind is {kind!r}, not "GraphFusion" or "UBFusion"'


def _problem_of_search(
    roots: Sequence[Any], arguments: Sequence[str], search: CapturedAttributes
) -> str:
    """The error in the result of a search function; empty if there is none."""
    if not roots or not all(isinstance(root, OpFormula | Out) for root in roots):
        return "returns no operator"
    used = search.attributes.keys() | set(chain.from_iterable(map(names, roots)))
    unused = [argument for argument in arguments if argument not in used]
    return f"does not use {', '.join(unused)}" if unused else ""


def _rewrite_of(
    replace_fn: Callable[..., Any],
    arguments: Sequence[str],
    scalars: Mapping[str, float],
    search: CapturedAttributes,
    extra_check: Callable[[Match], bool] | None,
) -> Callable[[Match, Tape], list[Edge | None]]:
    """The rewrite that calls a replacement function."""

    def rewrite(m: Match, new: Tape) -> list[Edge | None]:
        values = [_argument_value(m, argument, scalars, search) for argument in arguments]
        if extra_check is not None and not extra_check(m):
            refuse(_CHECK)
        with building(new):
            results = _as_tuple(replace_fn(*values))
            if any(result is None for result in results):
                raise TypeError("the replacement is None: does the function return its result?")
            return [to_edge(result, m.outputs[0], new) for result in results]

    return rewrite


def _check_arguments(
    arguments: list[str],
    replace_fn: Callable[..., Any],
    example_inputs: Sequence[Any] | None,
    scalars: Mapping[str, float],
    title: str,
    place: str,
) -> None:
    """Raises UsageError if the name, the arguments or the options are wrong."""
    if not title.isidentifier() or title in RESERVED:
        raise _usage_error(f'{title!r} cannot be the name of a pass; give it one: name="…"', place)
    if _arguments(replace_fn, title, place) != arguments:
        raise _usage_error(f"{title}: search and replace have different arguments", place)
    if others := ", ".join(scalar for scalar in scalars if scalar not in arguments):
        what = f"{title}: scalar_workaround names {others}, which is not an argument"
        raise _usage_error(what, place)
    count = len(arguments)
    if example_inputs is not None and len(example_inputs) not in (count, count - len(scalars)):
        raise _usage_error(
            f"{title}: {len(example_inputs)} example inputs for {count} arguments", place
        )


def _check_is_new(title: str, is_duplicate: bool, place: str) -> None:
    """Raises UsageError if the search or the name is already registered."""
    if is_duplicate:
        raise _usage_error(f"{title}: the same search is registered already", place)
    if title in [p.name for p in REGISTERED]:
        raise _usage_error(f"a pass {title} is registered already", place)


def _arguments(function: Any, title: str, place: str) -> list[str]:
    if not callable(function):
        raise _usage_error(f"{title or 'a pass'}: {function!r:.40} is not a function", place)
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.KEYWORD_ONLY) for p in parameters):
        raise _usage_error(
            f"{title}: every argument must be named and positional, without *", place
        )
    return [p.name for p in parameters]


def _place(function: Any) -> str:
    """File and line of the function; for other callables, those of the call that registers them."""
    code = getattr(function, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    caller = sys._getframe(2)
    return f"{caller.f_code.co_filename}:{caller.f_lineno}"


def _argument_value(
    m: Match, argument: str, scalars: Mapping[str, float], search: CapturedAttributes
) -> Any:
    """The value of an argument for the replacement: a value of the model, or a number."""
    value = m.captures.get(argument)
    if argument not in scalars:
        return None if value is None else BuiltValue(value)
    nodes = (
        (m.captures[label], attribute) for label, attribute in search.attributes.get(argument, ())
    )
    numbers = [node.attr(attribute) for node, attribute in nodes if node is not None]
    if value is not None:
        array = value.constant()
        if array.size != 1:
            refuse(f"{argument} is not a single number")
        # A number has no rank, but the constant may have raised the rank of other values.
        m.literal_rank = max(m.literal_rank, array.ndim)
        numbers.append(array.item())
    if any(number != numbers[0] for number in numbers[1:]):
        refuse(f"{argument} would have to be several numbers")
    return numbers[0] if numbers else None


def _structure(formula: Formula, seen: dict[int, int]) -> Any:
    """A key of a formula without argument names; equal for searches with the same matches."""
    place = seen.setdefault(id(formula), len(seen))
    match formula:
        case OpFormula():
            parts = [_structure(part, seen) for part in formula.args]
            return (place, formula.operators, sorted(formula.attributes.items()), parts)
        case Out():
            return (formula.index, _structure(formula.node, seen))
        case Const(value=value):
            return ("constant", place, value)
        case Each() | Either():
            return [_structure(part, seen) for part in formula.parts()]
        case _:
            return (type(formula).__name__, place)


def _usage_error(what: str, where: str) -> UsageError:
    hint = "correct the call of register_replacement there"
    return UsageError(what, where=where, hint=hint, code="E10001")
