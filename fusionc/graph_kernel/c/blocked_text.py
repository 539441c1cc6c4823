"""The C texts that run blocked programs (steps in a blocked layout). They are compiled for each
width of vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache

from fusionc.graph_kernel.blocked.kinds import kind_files, step_kinds
from fusionc.graph_kernel.blocked.kinds.byte_convolve import FAMILY as BYTES
from fusionc.graph_kernel.blocked.kinds.convolve import MatrixKind
from fusionc.graph_kernel.blocked.program import Program, ProgramStep
from fusionc.graph_kernel.blocked.step_kind import BLOCK
from fusionc.graph_kernel.c.assembled_sums import assembled_sums
from fusionc.graph_kernel.c.blocked_kinds import (
    family_of_file,
    kind_header,
    kind_table,
    program_types,
    width_declarations,
    width_lists,
)
from fusionc.graph_kernel.c.headers import header

STRASSEN = "strassen"  # the family of products with Strassen's algorithm
# families that are compiled only for vectors of 16 floats
_OF_WIDEST = frozenset(kind.family for kind in step_kinds() if kind.is_of_widest_vectors)
_SHARED = ("blocked_tiles.h", "blocked_float16.h", "blocked_narrow.h")
_RUNNING = (
    "blocked_instructions.h",
    "blocked_unpack.h",
    "blocked_run.h",
    "blocked_strassen_plan.h",
    "blocked_units.h",
)
_AFTER_ASSEMBLED = ("blocked_sums.h", "blocked_places.h")
_SUMS = (("blocked_near_sums.h",), ("blocked_far_sums.h",))


def families() -> tuple[str, ...]:
    """The families of steps. Compiling a family takes long, so it is compiled only if a program
    needs it.
    """
    return tuple(sorted({STRASSEN, *(kind.family for kind in step_kinds() if kind.family)}))


def families_of(program: Program) -> frozenset[str]:
    """The families that the steps of a program need."""
    return frozenset(family for step in program.steps if (family := _family_of(step)))


def _family_of(step: ProgramStep) -> str:
    is_strassen = isinstance(step.kind, MatrixKind) and step.kind.strassen_from
    return STRASSEN if is_strassen else step.kind.family


@dataclass(frozen=True)
class _Width:
    """The vectors of some processors, with the numbers that depend on them."""

    floats: int  # floats in a vector
    target: str  # the compiler's names for the instructions of these processors
    tile: int  # the number of pixels whose sums for two blocks of channels fit into registers
    # The numbers of pixels for which there are functions: first for planar images, then for
    # depthwise convolutions. Each function takes time to compile, so there are only a few. 7 is
    # among them because the length of rows is often a multiple of 7.
    tiles: tuple[int, ...]
    by_lane: tuple[int, ...]
    step: int  # GB_STEP of blocked_tiles.h
    near: int  # GB_NEAR of blocked_tiles.h
    is_assembled: bool = False  # whether the innermost loop of sums is in assembly
    is_x86: bool = True

    @property
    def is_fused(self) -> bool:
        """Whether the processors have an instruction that multiplies and adds."""
        return self.floats > 4

    def macros(self) -> dict[str, object]:
        """The C macros that differ between widths."""
        n = self.floats
        has_own = self.is_fused  # whether this width has its own instructions
        return {
            "GB(name)": f"GB_##name##_{n}",
            "GB_V": n,
            "GB_TILE": self.tile,
            "GB_TILES(f)": _each(range(1, self.tile + 1)),
            "GB_SOME_TILES(f)": _each(self.tiles),
            "GB_LANE_TILES(f)": _each(self.by_lane),
            "GB_LONGEST": max(self.tile, *self.by_lane),
            "GB_STEP": self.step,
            "GB_NEAR": self.near,
            "GB_IF_WIDEST(...)": "__VA_ARGS__" if n == BLOCK else "",
            "GB_FUSED": int(self.is_fused),
            "GB_MADD(a, b, c)": f"((GB(vec))gb_madd_{n}(a, b, c))"
            if has_own
            else "((a) * (b) + (c))",
            "GB_IS_ASSEMBLED": int(self.is_assembled),
            "GB_MAX(a, b)": f"((GB(vec))gb_max_{n}(a, b))" if self.is_x86 else "gb_larger_4(a, b)",
            "GB_MIN(a, b)": f"((GB(vec))gb_min_{n}(a, b))" if self.is_x86 else "gb_smaller_4(a, b)",
            "GB_PERMUTE(x, k)": f"((GB(vec))gb_permute_{n}(x, k))"
            if has_own
            else "gb_permuted_4(x, k)",
        }


def _each(numbers: Iterable[int]) -> str:
    return " ".join(f"f({n})" for n in numbers)


# The bytes of the first-level cache that weights may take. The rest is for images. With AVX-512 on
# Intel's processors, a run takes 10 % longer if it reads weights from the second-level cache.
_OF_FIRST_CACHE = 16 << 10
_OF_LARGER_FIRST_CACHE = 24 << 10
_BY_LANE = (1, 2, 4, 7, 8)
_WIDEST = (1, 2, 4, 7, 8, 14)
_AVX512 = "avx512f,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512"
_X86 = (
    _Width(4, "", 6, (1, 2, 4, 6), _BY_LANE, 4, _OF_FIRST_CACHE),
    _Width(8, "avx2,fma", 6, (1, 2, 4, 6), _BY_LANE, 8, _OF_FIRST_CACHE, is_assembled=True),
    _Width(16, _AVX512, 14, _WIDEST, _WIDEST, 4, _OF_LARGER_FIRST_CACHE),
)
_OTHER = _Width(4, "", 8, (1, 2, 4, 8), _BY_LANE, 4, _OF_FIRST_CACHE, is_x86=False)
_OF_FOUR = """
#ifndef GB_OF_FOUR
#define GB_OF_FOUR
typedef float gb_vec_4 __attribute__((vector_size(16)));
typedef int32_t gb_bits_4 __attribute__((vector_size(16), aligned(4)));
GK_INLINE gb_vec_4 gb_larger_4(gb_vec_4 a, gb_vec_4 b) { /* b where either is NaN */
  gb_vec_4 larger;
  for (int k = 0; k < 4; ++k) larger[k] = a[k] > b[k] ? a[k] : b[k];
  return larger;
}
GK_INLINE gb_vec_4 gb_smaller_4(gb_vec_4 a, gb_vec_4 b) {
  gb_vec_4 smaller;
  for (int k = 0; k < 4; ++k) smaller[k] = a[k] < b[k] ? a[k] : b[k];
  return smaller;
}
GK_INLINE gb_vec_4 gb_permuted_4(gb_vec_4 x, gb_bits_4 from) {
  gb_vec_4 taken;
  for (int k = 0; k < 4; ++k) taken[k] = x[from[k] & 3];
  return taken;
}
#endif
"""


def width_texts(needed: Collection[str]) -> list[str]:
    """The functions of steps for each width of vectors, as several C texts. Texts that take longest
    to compile come first. All libraries that need the same families have the same texts.
    """
    bodies = [
        *("".join(map(header, names)) for names in _SUMS),
        header("blocked_activations.h") + _kind_headers(""),
        *(_family_text(family) for family in sorted(set(needed) - _OF_WIDEST - {BYTES})),
    ]
    widest = [
        _width_text(_X86[-1], _family_text(family))
        for family in sorted(_OF_WIDEST.intersection(needed))
    ]
    widths = (*reversed(_X86), _OTHER)
    texts = [*widest, *(_width_text(width, body) for width in widths for body in bodies)]
    if BYTES in needed:
        of_bytes = [replace(width, target=_with_bytes(width.target)) for width in widths]
        tiles = header("matrix_tiles.h")
        texts += [_width_text(width, _kind_headers(BYTES), tiles) for width in of_bytes]
    return texts


def _with_bytes(target: str) -> str:
    return target.replace("avx512dq", "avx512dq,avx512bw")


def _kind_headers(family: str) -> str:
    return "".join(kind_header(name) for name in kind_files() if family_of_file(name) == family)


def _family_text(family: str) -> str:
    return header("blocked_strassen.h") if family == STRASSEN else _kind_headers(family)


@cache
def _width_text(width: _Width, body: str, more: str = "") -> str:
    return f"{_types(more)}\n{_on_its_processors(width, body)}"


def running_text() -> str:
    """The C text that runs programs, the same for all of them. It must come after runtime.h."""
    return "".join(
        [
            "#include <unistd.h>\n",
            header("vector_instructions.h"),
            *map(header, _RUNNING),
            kind_table(),
            *map(header, ("blocked_rows_in_place.h", "blocked_plan.h", "blocked_steps.h")),
        ]
    )


def function_tables(needed: Collection[str]) -> str:
    """The C text with the tables of functions for each width of vectors. They have the functions of
    these families. Only this text depends on the families, so all libraries share the object of
    the text that runs programs.
    """
    widths = [_on_its_processors(width, header("blocked_width.h")) for width in (*_X86, _OTHER)]
    return "".join(
        [
            _types(),
            f"#define GB_HAS_STRASSEN {int(STRASSEN in needed)}\n",
            width_lists(needed),
            *widths,
            header("blocked_widths.h"),
        ]
    )


def _types(more: str = "") -> str:
    return "".join(
        [
            header("compiler.h"),
            header("mathematics.h"),
            program_types(),
            more,
            header("vector_instructions.h"),
        ]
    )


def _on_its_processors(width: _Width, body: str) -> str:
    here = "defined" if width.is_x86 else "!defined"
    return f"#if {here}(__x86_64__)\n{_OF_FOUR}{_compiled_for(width, body)}#endif\n"


def _compiled_for(width: _Width, body: str) -> str:
    macros = width.macros()
    defined = [f"#define {name} {text}" for name, text in macros.items()]
    undefined = [f"#undef {name.split('(')[0]}" for name in macros]
    known = f"GB_KNOWN_{width.floats}"  # guards against repetition if all texts are joined into one
    assembled = [assembled_sums(width.tile)] if width.is_assembled else []
    shared = [
        width_declarations(),
        *map(header, _SHARED),
        *assembled,
        *map(header, _AFTER_ASSEMBLED),
    ]
    shared = [f"#ifndef {known}", f"#define {known}", *shared, "#endif"]
    lines = [
        *_target(width.target),
        *defined,
        *shared,
        body,
        *undefined,
        *_end_of_target(width.target),
    ]
    return "\n".join(lines) + "\n"


def _target(target: str) -> list[str]:
    if not target:
        return []
    attribute = f'__attribute__((target("{target.replace(",prefer-vector-width=512", "")}")))'
    return [
        "#if defined(__clang__)",
        f"#pragma clang attribute push({attribute}, apply_to = function)",
        "#else",
        "#pragma GCC push_options",
        f'#pragma GCC target("{target}")',
        "#endif",
    ]


def _end_of_target(target: str) -> list[str]:
    if not target:
        return []
    return [
        "#if defined(__clang__)",
        "#pragma clang attribute pop",
        "#else",
        "#pragma GCC pop_options",
        "#endif",
    ]
