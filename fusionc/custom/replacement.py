"""`register_replacement` makes a pass from two functions. One describes a subgraph, the other
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
from itertools import chain, count
from typing import Any, Literal

from fusionc.custom.builder import BuiltValue, SearchedValues, building, searching, to_edge
from fusionc.errors import UsageError
from fusionc.model.graph import Edge
from fusionc.rewrite import Match, Pass, Pattern, Tape, UBFusionPass, refuse
from fusionc.rewrite.pattern import Const, Each, Either, Formula, OpFormula, Out, Var, names

# names that mean several passes in switch files and --optimization_switch
RESERVED = ("ALL", "forbidden_close_pass")
_BASES = {"GraphFusion": Pass, "UBFusion": UBFusionPass}
REGISTERED: list[Pass] = []  # in the order of registration
_CHECK = "the extra check refuses the match"


def register_replacement(
    search_fn: Callable[..., Any],
    replace_fn: Callable[..., Any],
    example_inputs: Sequence[Any] | None = None,
    trace_fn: Callable[..., Any] | None = None,
    extra_check: Callable[[Match], bool] | None = None,
    search_fn_pattern: Formula | Sequence[Formula] | None = None,
    scalar_workaround: Mapping[str, float] | None = None,
    skip_duplicates: bool = False,
    *,
    name: str | None = None,
    kind: Literal["GraphFusion", "UBFusion"] = "GraphFusion",
) -> None:
    """Register a pass that replaces each subgraph that `search_fn` describes by the result of
    `replace_fn`.

    Both functions have the same arguments. An argument is a value of the model. If the search
    function uses an argument twice, both uses must be the same value. Other nodes may use the
    values that the search function returns, but not the values in between.

    scalar_workaround  the arguments that are numbers: in the search, such an argument matches a
                       constant of one element or an attribute; in the replacement, it is the number
                       in the model
    extra_check        a function that gets the match and returns whether to replace it; the match
                       has the arguments as attributes, and in `kwargs` as the replacement gets them
    search_fn_pattern  a formula, or several, to use instead of the result of `search_fn`
    name               the name of the pass; by default the name of the search function, with a
                       number if a registered pass already has this name
    trace_fn, example_inputs
                       for compatibility with TorchAir, whose arguments have this order; nothing is
                       traced, and only the number of the inputs is checked

    The pass is switched, counted and logged like any other.

    Raises UsageError if the functions do not fit together, or if the search is already registered
    and `skip_duplicates` is False.
    """
    place = _place(search_fn)
    title = _title(search_fn, name)
    functions = {"extra_check": extra_check, "trace_fn": trace_fn}
    arguments = _arguments(search_fn, title, place)
    if problem := _problem_of_options(scalar_workaround, functions, kind):
        raise _usage_error(f"{title}: {problem}", place)
    scalars = dict(scalar_workaround or {})
    _check_arguments(arguments, replace_fn, example_inputs, scalars, title, place)
    with searching() as search:
        roots = _as_tuple(search_fn_pattern or search_fn(*_formulas(arguments, scalars)))
    if problem := _problem_of_search(roots, arguments, search):
        raise _usage_error(f"{title}: the search function {problem}", place)
    key = repr([[_structure(root, {}) for root in roots], search.lists])
    is_duplicate = key in [getattr(p, "search", None) for p in REGISTERED]
    if is_duplicate and skip_duplicates:
        return
    if is_duplicate:
        raise _usage_error(f"{title}: the same search is registered already", place)
    if name is None:
        title = _free_name(title)
    _check_is_new(title, place)
    rewrite = _rewrite_of(replace_fn, arguments, scalars, search, extra_check)
    members = {
        "__doc__": f"{_summary(search_fn, replace_fn)}\n\nsource   {place}",
        "patterns": (Pattern(title, roots, rewrite, where=search.are_equal),),
        "numerics": "rounding",
        "search": key,
        "place": place,
    }
    REGISTERED.append(type(title, (_BASES[kind],), members)())


def _title(search_fn: object, name: str | None) -> str:
    return str(getattr(search_fn, "__name__", "") if name is None else name)


def _formulas(arguments: Sequence[str], scalars: Mapping[str, float]) -> list[Formula]:
    """The formulas with which the search function is called."""
    return [Const(name) if name in scalars else Var(name) for name in arguments]


def _registered_names() -> set[str]:
    return {p.name for p in REGISTERED}


def _free_name(title: str) -> str:
    """The name, with a number if it is taken."""
    numbered = (f"{title}_{number}" for number in count(2))
    return next(name for name in chain([title], numbered) if name not in _registered_names())


def _as_tuple(returned: Any) -> tuple[Any, ...]:
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def _summary(search_fn: Callable[..., Any], replace_fn: Callable[..., Any]) -> str:
    written = search_fn.__doc__ or f"{search_fn.__name__} becomes {replace_fn.__name__}."
    return inspect.cleandoc(written)


def _problem_of_options(
    scalar_workaround: object, functions: Mapping[str, object], kind: str
) -> str:
    """The error in the options of a call; empty if there is none."""
    if scalar_workaround is not None and not isinstance(scalar_workaround, Mapping):
        return "scalar_workaround is not a mapping of arguments to numbers"
    for name, function in functions.items():
        if function is not None and not callable(function):
            return f"{name} is not a function"
    return "" if kind in _BASES else f'kind is {kind!r}, not "GraphFusion" or "UBFusion"'


def _problem_of_search(
    roots: Sequence[Any], arguments: Sequence[str], search: SearchedValues
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
    search: SearchedValues,
    extra_check: Callable[[Match], bool] | None,
) -> Callable[[Match, Tape], list[Edge | None]]:
    """The rewrite that calls a replacement function."""

    def rewrite(m: Match, new: Tape) -> list[Edge | None]:
        values = [_argument_value(m, argument, scalars, search) for argument in arguments]
        m.kwargs = dict(zip(arguments, values, strict=True))
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
    number = len(arguments)
    if example_inputs is not None and len(example_inputs) not in (number, number - len(scalars)):
        raise _usage_error(
            f"{title}: {len(example_inputs)} example inputs for {number} arguments", place
        )


def _check_is_new(title: str, place: str) -> None:
    """Raises UsageError if the name is already registered."""
    if title in _registered_names():
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
    """The file and line of a function. For other callables: the file and line of the call that
    registers them.
    """
    code = getattr(function, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    caller = sys._getframe(2)
    return f"{caller.f_code.co_filename}:{caller.f_lineno}"


def _argument_value(
    m: Match, argument: str, scalars: Mapping[str, float], search: SearchedValues
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
    """A key of a formula without the names of arguments. Searches with equal keys match the same
    subgraphs.
    """
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
