"""C text about the kinds of steps (the parts of programs), generated from blocked/kinds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any

from fusionc.graph_kernel.blocked.kinds import kind_files, step_kinds
from fusionc.graph_kernel.blocked.step_kind import Activation, StepKind, StepSizes
from fusionc.graph_kernel.c.headers import header

_C_TYPES = {"bool": "int {}", "int": "int {}", "float": "float {}", "tuple[int, int]": "int {}[2]"}
# members of gb_kind in c/blocked_run.h
_TRAITS = (
    "keeps_pixels",
    "scatters",
    "second_is_pixel",
    "reads_tables",
    "is_matrix",
    "writes_rows",
    "gives_range",
)
_FUNCTIONS = ("packed_floats", "size", "fault", "divide", "nanoseconds", "most_tasks", "derive")
# Functions that exist for each width of vectors → their C type, and the macro that lists them by
# kind.
_OF_WIDTHS = {
    "task": ("gb_task", "GB_TASKS_BY_KIND"),
    "pack": ("gb_pack_weights", "GB_PACKS_BY_KIND"),
    "derive_weights": ("gb_derive_weights", "GB_DERIVES_BY_KIND"),
    "scratch": ("gb_scratch_floats", "GB_SCRATCHES_BY_KIND"),
}


def program_types() -> str:
    """The C types of programs, with enumerations of kinds and activations, and with gb_step, which
    has the fields of all kinds.
    """
    kinds = ", ".join(f"GB_{kind.enumerator()}" for kind in step_kinds())
    activations = ", ".join(f"GB_{activation.name}" for activation in Activation)
    return "\n".join(
        [
            "#ifndef GB_PROGRAM",
            f"enum {{ {kinds}, GB_KINDS }};",
            f"enum {{ {activations} }};",
            f"#define GB_FIELDS {'; '.join(_members().values())};",
            *(f"#define {name} {text}" for name, text in _macros().items()),
            "#endif",
            header("blocked_program.h"),
        ]
    )


def _macros() -> dict[str, str]:
    return {name: text for kind in step_kinds() for name, text in kind.macros().items()}


@cache
def _members() -> dict[str, str]:
    """The fields of all kinds: name → member of a C structure."""
    members = dict[str, str]()
    for kind in step_kinds():
        for field in fields(kind):
            member = _C_TYPES[str(field.type)].format(field.name)
            if members.setdefault(field.name, member) != member:
                raise TypeError(f"{kind.__name__}.{field.name} has another type elsewhere")
    return members


def width_declarations() -> str:
    """Declarations of the kinds' functions for one width of vectors. The functions are defined in
    several C texts.
    """
    return "".join(
        f"{ctype} {', '.join(f'GB({name})' for name in sorted(names))};\n"
        for which, (ctype, _) in _OF_WIDTHS.items()
        if (names := {name for kind in step_kinds() if (name := _function(kind, which))})
    )


def width_lists(families: Collection[str]) -> str:
    """For one width of vectors, macros that list the functions of the kinds in these families."""
    return "".join(
        f"#define {name} {_functions_of_width(which, families, is_widest)}\n"
        for which, (_, macro) in _OF_WIDTHS.items()
        for name, is_widest in ((macro, False), (macro.replace("GB_", "GB_WIDEST_"), True))
    )


def _functions_of_width(which: str, families: Collection[str], is_widest: bool) -> str:
    kinds = [
        kind
        for kind in step_kinds()
        if kind.is_of_widest_vectors == is_widest and (not kind.family or kind.family in families)
    ]
    named = [(kind.enumerator(), _function(kind, which)) for kind in kinds]
    return " ".join(f"[GB_{kind}] = GB({name})," for kind, name in named if name)


def kind_table() -> str:
    """The headers of all kinds, each once, and the table of the kinds."""
    rows = "".join(
        f"    [GB_{kind.enumerator()}] = {{{', '.join(_entries(kind))}}},\n"
        for kind in step_kinds()
    )
    table = f"static const gb_kind gb_kinds[GB_KINDS] = {{\n{rows}}};\n"
    return "".join([*map(kind_header, kind_files()), _counting_text(), table])


@dataclass(frozen=True)
class _Expression:
    """A C expression. An operator in Python makes a larger C expression, evaluated from left to
    right.
    """

    text: str

    def __mul__(self, other: _Expression) -> _Expression:
        return _Expression(f"{self.text} * {other.text}")

    def __truediv__(self, other: _Expression) -> _Expression:
        return _Expression(f"{self.text} / {other.text}")

    def __radd__(self, number: int) -> _Expression:
        return _Expression(f"({number} + {self.text})")


_SIZES = StepSizes(
    *map(
        _Expression,
        (
            "gb_made(c)",
            "gb_taps(c->step)",
            "(c->step->stride[0] * c->step->stride[1])",
            "(double)c->in.channels",
            "(double)c->out.channels",
            "c->step->group",
            "(double)c->keys",
        ),
    )
)


def _counting() -> dict[Callable[[StepSizes], Any], str]:
    """Python function that counts products → the name of the C function that is generated from
    it.
    """
    functions = {kind.products for kind in step_kinds()} - {StepKind.products}
    return {one: f"gb_{one.__qualname__.replace('.', '_')}" for one in functions}


def _counting_text() -> str:
    texts = (
        f"static double {name}(const gb_call *c) {{\n  return {count(_SIZES).text};\n}}\n"
        for count, name in _counting().items()
    )
    return "".join(sorted(texts))


def _entries(kind: type[StepKind]) -> Iterator[str]:
    yield from (f".{trait} = 1" for trait in _TRAITS if getattr(kind, trait))
    if name := _counting().get(kind.products):
        yield f".products = {name}"
    for which in _FUNCTIONS:
        if name := _function(kind, which):
            yield f".{which} = gb_{name}"


def _function(kind: type[StepKind], which: str) -> str:
    name: str = getattr(kind.functions, which)
    return name


@cache
def kind_header(name: str) -> str:
    """The header of a file of kinds. The functions for one width of vectors are between #ifdef GB_V
    and #else.
    """
    folder = resources.files("fusionc.graph_kernel.blocked") / "kinds"
    return (folder / f"{name}.h").read_text()


def family_of_file(name: str) -> str:
    """The family of the kinds in a file (see `families`). "" if they are in all libraries."""
    (family,) = {k.family for k in step_kinds() if k.__module__.rpartition(".")[2] == name}
    return family
