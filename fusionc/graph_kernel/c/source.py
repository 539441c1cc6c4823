"""The C texts of the kernels of areas: loops, tables and custom operators."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import accumulate, chain

from fusionc.graph_kernel.area import Area, KernelKind
from fusionc.graph_kernel.blocked.make_program import narrow_program_of, program_of
from fusionc.graph_kernel.blocked.program_text import program_text
from fusionc.graph_kernel.c.blocked_kinds import program_types
from fusionc.graph_kernel.c.blocked_text import (
    families_of,
    function_tables,
    running_text,
    width_texts,
)
from fusionc.graph_kernel.c.compile import Contents, Unit
from fusionc.graph_kernel.c.headers import header
from fusionc.graph_kernel.c.loop_text import LoopNestText
from fusionc.graph_kernel.c.operators_as_model import operators_as_model, text_of
from fusionc.graph_kernel.lower.area_info import AreaInfo
from fusionc.graph_kernel.lower.c_types import ctype_of, table
from fusionc.graph_kernel.lower.infer_sizes import infer_sizes
from fusionc.graph_kernel.lower.loop_nest import loop_nests_of
from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported

_MOST_ACCESSES = 128  # of a kernel
_MOST_TENSORS = 64  # of a kernel
_UNIT = 12_000  # characters of loops in one text: enough to be worth another run of the compiler
_PLAIN = 16  # characters of tables and sizes that compile as fast as one character of loops
# The sizes of arrays that suffice for most libraries.
_USUAL = {
    "GK_VARIABLES": 4, "GK_ACCESSES": 8, "GK_PIECES": 4, "GK_NUMBERS": 4, "GK_TENSORS": 8,
    "GK_RANK": 4,
}  # fmt: skip
_NAME = "GK_NAME"  # replaced by the name of a kernel's functions when its text is complete


@dataclass(frozen=True, eq=False)
class Kernel:
    """The C code of an area. It does not depend on the names of the area's values."""

    name: str  # of the custom operator
    function: str  # the prefix of the names in `text`
    bodies: Mapping[str, str]  # the C functions of the loops, by name
    text: str  # tables and plan; areas that differ only in scalars have the same text
    # sizes that arrays of the runtime must have
    variables: int
    accesses: int
    nests: int
    numbers: int
    tensors: int
    rank: int
    scalars: tuple[str, ...] = ()
    families: frozenset[str] | None = None  # the families of a program's steps; None for loops
    is_narrow: bool = False  # whether there is a second program, which uses bfloat16

    @property
    def is_program(self) -> bool:
        return self.families is not None


def kernel_of(area: Area) -> Kernel:
    """The C code of an area. If a kernel cannot compute the area, raises Unsupported with the
    reason.
    """
    try:
        return _loop_kernel(area) if area.kind is KernelKind.LOOPS else _program_kernel(area)
    except RecursionError:
        raise Unsupported("its longest chain of operators is too long") from None


def _program_kernel(area: Area) -> Kernel:
    program = program_of(area).program
    narrow = narrow_program_of(area)
    text = program_text(_NAME, program) + _ports(area)
    families = families_of(program)
    if narrow is not None:
        text += program_text(f"{_NAME}_narrow", narrow.program)
        families |= families_of(narrow.program)
    function = "gb_" + hashlib.sha256(text.encode()).hexdigest()[:12]
    text = text.replace(_NAME, function)
    return Kernel(
        area.name, function, {}, text, 1, 1, 1, 1, 1, 4,
        families=families, is_narrow=narrow is not None,
    )  # fmt: skip


def _loop_kernel(area: Area) -> Kernel:
    ports = (*area.inputs, *area.outputs)
    for name in ports:
        if name not in area.values:
            raise Unsupported(f"the type or shape of {name} is unknown")
        ctype_of(area.values[name].dtype)
    info = AreaInfo(area)
    infer_sizes(info)
    nests, tables = _nest_texts(info)
    accesses = max(len(nest.accesses) for nest in nests)
    tensors = len(ports) + len(tables)
    if accesses > _MOST_ACCESSES or tensors > _MOST_TENSORS:
        raise Unsupported("it reads and writes too many tensors")
    text = _text(info, nests, tables)
    function = "gk_" + hashlib.sha256(text.encode()).hexdigest()[:12]
    return Kernel(
        name=area.name,
        function=function,
        bodies={nest.function: nest.body() for nest in nests},
        text=text.replace(_NAME, function),
        variables=max(len(nest.grid) + len(nest.row) for nest in nests),
        accesses=accesses,
        nests=len(nests),
        numbers=max(len(nest.numbers) for nest in nests),
        tensors=tensors,
        rank=max(1, *(len(area.values[name].shape) for name in ports)),
        scalars=tuple(step.template.rstrip("f") for nest in nests for step in nest.scalars),
    )


def _nest_texts(info: AreaInfo) -> tuple[list[LoopNestText], list[str]]:
    """The C texts of an area's loop nests, and the names of constants that they read as tables."""
    area = info.area
    nests = loop_nests_of(info)
    used = {s.access.tensor for nest in nests for s in nest.steps.made if s.access}
    tables = [name for name in area.constants if name in used]
    tensors = [*area.inputs, *area.outputs, *tables]
    texts = [LoopNestText(f"{_NAME}_{k}", nest, info, tensors) for k, nest in enumerate(nests)]
    return texts, tables


def _text(info: AreaInfo, nests: Sequence[LoopNestText], tables: Sequence[str]) -> str:
    area = info.area
    parts = list[str]()
    for k, name in enumerate(tables):
        ctype = info.ctype(name)
        array = area.constants[name]
        parts.append(f"static const {ctype.stored} {_NAME}_t{k}[] = {{{table(ctype, array)}}};\n")
    firsts = accumulate((len(nest.scalars) for nest in nests), initial=0)
    forms = [nest.form(first) for nest, first in zip(nests, firsts, strict=False)]
    parts += [accesses for accesses, _ in forms]
    parts.append(
        f"static const gk_form {_NAME}_forms[] = {{{', '.join(form for _, form in forms)}}};\n"
    )
    fill = [line for number, nest in enumerate(nests) for line in nest.plan(number)]
    sizes = [
        f"out[{k}][{axis}] = {size};"
        for k, name in enumerate(area.outputs)
        for axis, size in enumerate(info.shapes[name])
    ]
    plan = [
        *info.sizes.lines,
        *sizes,
        f"memset(q, 0, {len(nests)} * sizeof *q);",
        *fill,
        "return NULL;",
    ]
    parts.append(
        (
            f"static const char *{_NAME}_plan(const int64_t *const *in, int64_t *const *out, "
            "gk_piece *q) {\n"
        )
        + "".join(f"  {line}\n" for line in plan)
        + "}\n"
    )
    parts.append(_ports(area))
    pointers = ", ".join([*(f"{_NAME}_t{k}" for k in range(len(tables))), "NULL"])
    parts.append(f"static const void *const {_NAME}_tables[] = {{{pointers}}};\n")
    return "\n".join(parts)


def _ports(area: Area) -> str:
    """C tables with the types and ranks of inputs and outputs."""
    ports = [area.values[name] for name in (*area.inputs, *area.outputs)]
    types = ", ".join(str(port.dtype) for port in ports)
    ranks = ", ".join(str(len(port.shape)) for port in ports)
    return (
        f"static const short {_NAME}_types[] = {{{types}}};\n"
        f"static const short {_NAME}_ranks[] = {{{ranks}}};\n"
    )


def _entry(kernel: Kernel, area: Area) -> str:
    f = kernel.function
    scalars = f"op_{kernel.name}_scalars"
    how = f"NULL, NULL, NULL, NULL, &{f}_program"
    if not kernel.is_program:
        how = f"{f}_plan, {f}_forms, {f}_tables, {scalars}, NULL"
    counts = f"{len(area.inputs)}, {len(area.outputs)}, {kernel.nests}"
    values = ", ".join(kernel.scalars) or "0"
    model = operators_as_model(area)
    ports = f'"{kernel.name}", {counts}, {f}_types, {f}_ranks'
    otherwise = f"&{kernel.name}_otherwise"
    narrow = f"NULL, NULL, NULL, NULL, &{f}_narrow_program"
    return (
        f"static gk_operators_of {kernel.name}_otherwise = {{{text_of(model)}, {len(model)}}};\n"
        + f"static const double {scalars}[] = {{{values}}};\n" * (not kernel.is_program)
        + f"static const gk_kernel narrow_{kernel.name} = {{{ports}, {narrow}, {otherwise}}};\n"
        * kernel.is_narrow
        + f"const gk_kernel op_{kernel.name} = {{{ports}, {how}, {otherwise}"
        + f", &narrow_{kernel.name}" * kernel.is_narrow
        + "};\n"
    )


def source(areas: Sequence[Area]) -> str:
    """The C text of a library with the kernels of areas. Equal loops share one function.

    Raises Unsupported if a kernel cannot compute an area. Raises ValueError if two different areas
    have the same name.
    """
    (unit,) = _units(areas, None)
    return unit.text


def units(areas: Sequence[Area]) -> list[Unit]:
    """The C text of `source`, divided into several texts that are compiled in parallel and linked.

    Raises the same errors as `source`. The division depends only on the areas, so that every
    machine builds the same library.
    """
    return _units(areas, _UNIT)


def _units(areas: Sequence[Area], most: int | None) -> list[Unit]:
    """Texts of at most `most` characters each; a single loop may be longer. None means one text."""
    kernels = _kernels(areas)
    bodies = dict(item for kernel in kernels for item in kernel.bodies.items())
    head = _head(list(kernels), is_shared=most is not None)
    names = _names(kernels, bodies)
    loops = _packed(_items(kernels, bodies.values()), most)
    families = frozenset(chain(*(kernel.families or () for kernel in kernels)))
    has_programs = any(kernel.is_program for kernel in kernels)
    widths = width_texts(families) if has_programs else []
    functions = [function_tables(families)] if has_programs else []
    interface = [header("onnxruntime_api.h"), header("operator_types.h")]
    runtime = [*interface, *_runtime_texts(has_programs=has_programs)]
    table = _table_texts(kernels)
    if most is None:
        return [
            Unit("\n".join([head, *names, *loops.pop(), *runtime, *widths, *functions, *table]))
        ]
    steps = [Unit(text, Contents.STEPS) for text in widths]
    nests = [Unit("\n".join([head, *names, *its]), Contents.LOOPS) for its in loops]
    ends = [
        *(Unit(text, Contents.RUNTIME) for text in functions),
        # the same for most libraries, because the names of kernels are only in the other text
        Unit("\n".join([head, *runtime]), Contents.RUNTIME),
        Unit("\n".join([head, *names, *interface, *table])),
    ]
    return [*steps, *nests, *ends]


def _kernels(areas: Sequence[Area]) -> dict[Kernel, Area]:
    """The kernels of areas, one for each name."""
    kernels: dict[str, tuple[Kernel, Area]] = {}
    for area in areas:
        kernel = kernel_of(area)
        known = kernels.setdefault(area.name, (kernel, area))[0]
        if (known.function, known.scalars) != (kernel.function, kernel.scalars):
            raise ValueError(f"two different areas have the name {area.name}")
    return dict(kernels.values())


def _items(kernels: Mapping[Kernel, Area], bodies: Iterable[str]) -> list[tuple[str, int]]:
    """The functions of loops, and the texts of kernels with their entries, each with its size in
    characters of loops.
    """
    entries: dict[str, list[str]] = {}  # C text with tables → the entries that use it
    for kernel, area in kernels.items():
        entries.setdefault(kernel.text, []).append(_entry(kernel, area))
    texts = [("\n".join([text, *its]), len(text) // _PLAIN) for text, its in entries.items()]
    return [*((body, len(body)) for body in bodies), *texts]


def _runtime_texts(*, has_programs: bool) -> list[str]:
    """The texts that run kernels in onnxruntime. `has_programs` says whether a kernel is a
    program.
    """
    texts = [header(f"{name}.h") for name in ("runtime", "otherwise", "loop_operators")]
    if has_programs:
        texts += [running_text(), header("blocked_operators.h")]
    return [*texts, header("operators.h")]


def _table_texts(kernels: Iterable[Kernel]) -> list[str]:
    """The texts that list the kernels for onnxruntime."""
    loops = _list("GK_KERNELS", [kernel for kernel in kernels if not kernel.is_program])
    programs = _list("GK_PROGRAMS", [kernel for kernel in kernels if kernel.is_program])
    return [loops, programs, header("operator_table.h")]


def _list(name: str, kernels: Iterable[Kernel]) -> str:
    return f"#define {name}(each) {' '.join(f'each(op_{kernel.name})' for kernel in kernels)}\n"


def _head(kernels: Sequence[Kernel], *, is_shared: bool) -> str:
    """The beginning of each text: the sizes of arrays, and types. If `is_shared`, the sizes are
    rounded up, so that most libraries have the same beginning and can share objects.
    """
    sizes = _array_sizes(kernels)
    if is_shared:
        sizes = {name: max(_USUAL[name], _power_of_two(size)) for name, size in sizes.items()}
    return "\n".join(
        [
            "/* Kernels of areas, made by fusionc. */",
            f"enum {{ {', '.join(f'{name} = {n}' for name, n in sizes.items())} }};",
            header("compiler.h"),
            header("mathematics.h"),
            header("kernel.h"),
            *([program_types()] if any(kernel.is_program for kernel in kernels) else ()),
        ]
    )


def _array_sizes(kernels: Sequence[Kernel]) -> dict[str, int]:
    """The sizes of arrays that these kernels need."""
    return {
        "GK_VARIABLES": max(k.variables for k in kernels),
        "GK_ACCESSES": max(k.accesses for k in kernels),
        "GK_PIECES": max(k.nests for k in kernels),
        "GK_NUMBERS": max(1, *(k.numbers for k in kernels)),
        "GK_TENSORS": max(k.tensors for k in kernels),
        "GK_RANK": max(k.rank for k in kernels),
    }


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _names(kernels: Iterable[Kernel], bodies: Iterable[str]) -> list[str]:
    """Declarations of the loops and kernels that other texts define."""
    return [
        *(f"extern gk_body *const {name}_bodies[];" for name in bodies),
        *(f"extern const gk_kernel op_{kernel.name};" for kernel in kernels),
    ]


def _packed(items: Iterable[tuple[str, int]], most: int | None) -> list[list[str]]:
    """Pack items, each given with its size, into as few groups as possible without reordering them.
    The sizes in a group add up to at most `most`, except for a single larger item.
    """
    groups = list[list[str]]([[]])
    filled = 0
    for item, size in items:
        if most is not None and groups[-1] and filled + size > most:
            groups.append([])
            filled = 0
        groups[-1].append(item)
        filled += size
    return groups


@cache
def generator() -> bytes:
    """A hash of the code that generates kernels. It changes whenever that code changes."""
    text = hashlib.sha256()
    package = resources.files("fusionc.graph_kernel")
    rooms = (package / "lower", package / "blocked", package / "blocked" / "kinds", package / "c")
    files = [file for room in rooms for file in room.iterdir()]
    files.append(resources.files("fusionc.operators") / "polynomials.py")
    for file in sorted(files, key=lambda file: file.name):
        if file.name.endswith((".py", ".h")):
            text.update(file.read_bytes())
    return text.digest()


def reason_against(area: Area) -> str | None:
    """The reason why a kernel cannot compute an area. `None` if it can."""
    try:
        kernel_of(area)
    except Unsupported as error:
        return str(error)
    return None
