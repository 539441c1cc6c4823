"""`register_replacement`: a pass from two functions, one that says what to look for and one that
says what to put.

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
from typing import Any, Literal

from fusionc.custom.builder import BuiltValue, CapturedAttributes, building, searching, to_edge
from fusionc.errors import UsageError
from fusionc.rewrite import Match, Pass, Pattern, Tape, UBFusionPass, refuse
from fusionc.rewrite.pattern import Const, Each, Either, Formula, OpFormula, Out, Var, names

# what switch files and --optimization_switch say for several passes
RESERVED = ("ALL", "forbidden_close_pass")
REGISTERED: list[Pass] = []  # in the order of registration
_CHECK = "the extra check says no"


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
    """Make a pass that puts what `replace_fn` builds where `search_fn` finds what it describes.

    Both have the same arguments: an argument is a value of the model, the same one wherever it is
    named. What the search function returns may be used anywhere afterwards, values between may not
    be used elsewhere. Arguments in `scalar_workaround` are numbers: in the search a constant of one
    element or an attribute, in the replacement the number that was found. `extra_check` gets the
    match, whose arguments are attributes, and says whether to go on. `example_inputs` is accepted
    for the sake of TorchAir's signature; its length is checked. The pass is called `name` (default:
    that of the search function), and is switched, counted and logged like any other.

    Raises UsageError for functions that do not fit together, and for a search that is registered
    already, unless `skip_duplicates` says to leave the second one out.
    """
    place = _place(search_fn)
    title = str(getattr(search_fn, "__name__", "") if name is None else name)
    arguments = _arguments(search_fn, title, place)
    scalars = dict(scalar_workaround) if isinstance(scalar_workaround, Mapping) else {}
    if scalar_workaround is not None and not isinstance(scalar_workaround, Mapping):
        raise _wrong(f"{title}: scalar_workaround is not a mapping of arguments to numbers", place)
    if extra_check is not None and not callable(extra_check):
        raise _wrong(f"{title}: extra_check is not a function", place)
    if kind not in ("GraphFusion", "UBFusion"):
        raise _wrong(f'{title}: kind is {kind!r}, not "GraphFusion" or "UBFusion"', place)
    _check(arguments, replace_fn, example_inputs, scalars, title, place)
    with searching() as search:
        formulas = search_fn(*(Const(a) if a in scalars else Var(a) for a in arguments))
    roots = tuple(formulas) if isinstance(formulas, tuple | list) else (formulas,)
    if not roots or not all(isinstance(root, OpFormula | Out) for root in roots):
        raise _wrong(f"{title}: the search function returns no operator", place)
    used = {name for root in roots for name in names(root)} | search.attributes.keys()
    if not used.issuperset(arguments):
        unused = ", ".join(a for a in arguments if a not in used)
        raise _wrong(f"{title}: the search function does not use {unused}", place)
    key = repr([_structure(root, {}) for root in roots])
    if any(getattr(p, "search", None) == key for p in REGISTERED):
        if skip_duplicates:
            return
        raise _wrong(f"{title}: the same search is registered already", place)
    if any(p.name == title for p in REGISTERED):
        raise _wrong(f"a pass {title} is registered already", place)

    def rewrite(m: Match, new: Tape) -> Any:
        given = [_given(m, argument, scalars, search) for argument in arguments]
        if extra_check is not None and not extra_check(m):
            refuse(_CHECK)
        with building(new):
            made = replace_fn(*given)
            results = made if isinstance(made, tuple | list) else (made,)
            if any(result is None for result in results):
                raise TypeError("the replacement is None: does the function return what it makes?")
            return [to_edge(result, m.outputs[0], new) for result in results]

    pattern = Pattern(title, roots if len(roots) > 1 else roots[0], rewrite)
    base = UBFusionPass if kind == "UBFusion" else Pass
    summary = inspect.cleandoc(
        search_fn.__doc__ or f"{search_fn.__name__} becomes {replace_fn.__name__}."
    )
    members = {
        "__doc__": f"{summary}\n\nsource   {place}",
        "patterns": (pattern,),
        "numerics": "rounding",
        "search": key,
        "place": place,
    }
    REGISTERED.append(type(title, (base,), members)())


def _check(
    arguments: list[str],
    replace_fn: Callable[..., Any],
    example_inputs: Sequence[Any] | None,
    scalars: Mapping[str, float],
    title: str,
    place: str,
) -> None:
    if not title.isidentifier() or title in RESERVED:
        raise _wrong(f'{title!r} is no name for a pass; give it one: name="…"', place)
    if _arguments(replace_fn, title, place) != arguments:
        raise _wrong(f"{title}: search and replace have different arguments", place)
    unknown = [scalar for scalar in scalars if scalar not in arguments]
    if unknown:
        raise _wrong(
            f"{title}: scalar_workaround names {', '.join(unknown)}, which is not an argument",
            place,
        )
    if example_inputs is not None and len(example_inputs) not in (
        len(arguments),
        len(arguments) - len(scalars),
    ):
        raise _wrong(
            f"{title}: {len(example_inputs)} example inputs for {len(arguments)} arguments", place
        )


def _arguments(function: Any, title: str, place: str) -> list[str]:
    if not callable(function):
        raise _wrong(f"{title or 'a pass'}: {function!r:.40} is not a function", place)
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.KEYWORD_ONLY) for p in parameters):
        raise _wrong(f"{title}: every argument needs a name and a place, without *", place)
    return [p.name for p in parameters]


def _place(function: Any) -> str:
    """Where the function is defined, or where it is registered if it is no plain function."""
    code = getattr(function, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    caller = sys._getframe(2)
    return f"{caller.f_code.co_filename}:{caller.f_lineno}"


def _given(
    m: Match, argument: str, scalars: Mapping[str, float], search: CapturedAttributes
) -> Any:
    """What the replacement gets for an argument: a value, or the number that was found."""
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
        # it is a number from here on, whatever rank it gave others
        m.literal_rank = max(m.literal_rank, array.ndim)
        numbers.append(array.item())
    if any(number != numbers[0] for number in numbers[1:]):
        refuse(f"{argument} would have to be several numbers")
    return numbers[0] if numbers else None


def _structure(formula: Formula, seen: dict[int, int]) -> Any:
    """The formula without the names of its arguments: equal for searches that find the same."""
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


def _wrong(what: str, where: str) -> UsageError:
    hint = "correct the call of register_replacement there"
    return UsageError(what, where=where, hint=hint, code="E10001")
