"""Areas as one C file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
import onnx

from fusionc.graph_kernel.area import Area, Operand
from fusionc.graph_kernel.kernels.emit import PieceText
from fusionc.graph_kernel.kernels.kinds import kind_of, table
from fusionc.graph_kernel.kernels.pull import infer_shapes, pieces_of
from fusionc.graph_kernel.kernels.sizes import Unsupported
from fusionc.graph_kernel.kernels.view import View

_MOST_ACCESSES = 128
_MOST_TENSORS = 64
_NAME = "GK_NAME"  # stands for the name of a kernel's functions until its text is complete


@dataclass(frozen=True)
class Kernel:
    """The C code of an area, which does not depend on the names of its values.

    `name` is the operator's, `text` has the functions and tables, `function` begins their names. The rest are the
    numbers that arrays must be large enough for.
    """

    name: str
    function: str
    text: str
    variables: int
    accesses: int
    pieces: int
    numbers: int
    tensors: int
    rank: int


def lower(area: Area) -> Kernel:
    """Raises Unsupported, with the reason in words, if a kernel cannot compute an area."""
    try:
        return _lowered(area)
    except RecursionError:
        raise Unsupported("its longest chain of operators is too long") from None


def _lowered(area: Area) -> Kernel:
    view = View(area)
    for name in (*area.inputs, *area.outputs):
        if name not in area.values:
            raise Unsupported(f"nothing is known of {name}")
        kind_of(area.values[name].dtype)
    infer_shapes(view)
    made = pieces_of(view)
    used = {s.access.tensor for piece in made for s in piece.steps.made if s.access}
    tables = [name for name in area.constants if name in used]
    tensors = [*area.inputs, *area.outputs, *tables]
    pieces = [PieceText(f"{_NAME}_{k}", piece, view, tensors) for k, piece in enumerate(made)]
    accesses = max(len(piece.accesses) for piece in pieces)
    if accesses > _MOST_ACCESSES or len(tensors) > _MOST_TENSORS:
        raise Unsupported("it reads and writes too many tensors")
    text = _text(view, pieces, tables)
    function = "gk_" + hashlib.sha256(text.encode()).hexdigest()[:12]
    return Kernel(
        name=area.name,
        function=function,
        text=text.replace(_NAME, function),
        variables=max(len(piece.grid) + len(piece.row) for piece in pieces),
        accesses=accesses,
        pieces=len(pieces),
        numbers=max(len(piece.numbers) for piece in pieces),
        tensors=len(tensors),
        rank=max(1, *(len(area.values[name].shape) for name in (*area.inputs, *area.outputs))),
    )


def _text(view: View, pieces: Sequence[PieceText], tables: Sequence[str]) -> str:
    area, parts = view.area, list[str]()
    for k, name in enumerate(tables):
        kind, array = view.kind(name), area.constants[name]
        parts.append(f"static const {kind.stored} {_NAME}_t{k}[] = {{{table(kind, array)}}};\n")
    parts += [piece.body() for piece in pieces]
    forms = [piece.form() for piece in pieces]
    parts += [accesses for accesses, _ in forms]
    parts.append(f"static const gk_form {_NAME}_forms[] = {{{', '.join(form for _, form in forms)}}};\n")
    fill = [line for number, piece in enumerate(pieces) for line in piece.plan(number)]
    sizes = [
        f"out[{k}][{axis}] = {size};"
        for k, name in enumerate(area.outputs)
        for axis, size in enumerate(view.shapes[name])
    ]
    plan = [*view.sizes.lines, *sizes, f"memset(q, 0, {len(pieces)} * sizeof *q);", *fill, "return NULL;"]
    parts.append(
        f"static const char *{_NAME}_plan(const int64_t *const *in, int64_t *const *out, gk_piece *q) {{\n"
        + "".join(f"  {line}\n" for line in plan)
        + "}\n"
    )
    ports = [area.values[name] for name in (*area.inputs, *area.outputs)]
    parts.append(f"static const short {_NAME}_types[] = {{{', '.join(str(port.dtype) for port in ports)}}};\n")
    parts.append(f"static const short {_NAME}_ranks[] = {{{', '.join(str(len(port.shape)) for port in ports)}}};\n")
    pointers = ", ".join([*(f"{_NAME}_t{k}" for k in range(len(tables))), "NULL"])
    parts.append(f"static const void *const {_NAME}_tables[] = {{{pointers}}};\n")
    return "\n".join(parts)


def _entry(kernel: Kernel, area: Area) -> str:
    f = kernel.function
    return (
        f'static const gk_kernel op_{kernel.name} = {{"{kernel.name}", {len(area.inputs)}, {len(area.outputs)},'
        f" {kernel.pieces}, {f}_types, {f}_ranks, {f}_plan, {f}_forms, {f}_tables}};\n"
    )


def source(areas: Sequence[Area]) -> str:
    """The C text of a library with the kernels of areas. Areas that compute the same share their functions.

    Raises Unsupported if one of them cannot be lowered, ValueError if two that differ have the same name.
    """
    kernels: dict[str, tuple[Kernel, Area]] = {}
    for area in areas:
        kernel = lower(area)
        known = kernels.setdefault(area.name, (kernel, area))[0]
        if known.function != kernel.function:
            raise ValueError(f"two different areas have the name {area.name}")
    return _file([kernel for kernel, _ in kernels.values()], [_entry(*pair) for pair in kernels.values()])


def _file(kernels: Sequence[Kernel], entries: Sequence[str]) -> str:
    bounds = {
        "GK_VARIABLES": max(k.variables for k in kernels),
        "GK_ACCESSES": max(k.accesses for k in kernels),
        "GK_PIECES": max(k.pieces for k in kernels),
        "GK_NUMBERS": max(1, *(k.numbers for k in kernels)),
        "GK_TENSORS": max(k.tensors for k in kernels),
        "GK_RANK": max(k.rank for k in kernels),
    }
    each = " ".join(f"each(op_{kernel.name})" for kernel in kernels)
    return "\n".join(
        [
            "/* Kernels of areas, made by fusionc. */",
            f"enum {{ {', '.join(f'{name} = {n}' for name, n in bounds.items())} }};",
            _part("compiler.h"),
            _part("onnxruntime_api.h"),
            _part("mathematics.h"),
            _part("runtime.h"),
            *dict.fromkeys(kernel.text for kernel in kernels),
            *entries,
            f"#define GK_KERNELS(each) {each}\n",
            _part("operators.h"),
        ]
    )


@cache
def generator() -> bytes:
    """A hash of what makes kernels: those of two versions of it may differ."""
    text = hashlib.sha256()
    package = resources.files(__package__)
    for file in sorted([*package.iterdir(), *(package / "c").iterdir()], key=lambda file: file.name):
        if file.name.endswith((".py", ".h")):
            text.update(file.read_bytes())
    return text.digest()


def _part(name: str) -> str:
    return (resources.files(__package__) / "c" / name).read_text()


def alone(node: onnx.NodeProto, values: Mapping[str, Operand], constants: Mapping[str, np.ndarray], opset: int) -> Area:
    """The area of one operator."""
    return Area(
        name="alone",
        nodes=(node,),
        inputs=tuple(dict.fromkeys(name for name in node.input if name and name not in constants)),
        outputs=tuple(name for name in node.output if name),
        values=values,
        opset=opset,
        constants={name: constants[name] for name in node.input if name in constants},
    )


def reason_against(area: Area) -> str | None:
    """Why a kernel cannot compute an area, None if it can."""
    try:
        lower(area)
    except Unsupported as error:
        return str(error)
    return None
