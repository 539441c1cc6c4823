"""The innermost loop of sums of products in assembly, for processors with AVX2.

A tile (some pixels by some blocks of output channels) takes 15 of the 16 registers. The code of gcc
would also copy registers, and spill them to memory. This costs no time while a core runs one
thread. But on most rented machines, another tenant uses the core's other hardware thread, and then
it costs a fifth of the time.
"""

from __future__ import annotations

from collections.abc import Iterator

_VECTOR = 8  # floats
_FLOAT = 4  # bytes
_LINE = 64  # bytes of a cache line
_NEAR = 3  # pixels that one pointer reaches: at 0, 1 and 2 times the distance between two pixels
_X = "rax"
_LOWER = "rcx"
_WEIGHTS = "rdx"
_AHEAD = "rsi"
_LEFT = "rdi"
_APART = "r8"
_COLUMN = "r9"
_AHEAD_STEP = "r10"
_AT = ("(%%{})", f"(%%{{}},%%{_APART})", f"(%%{{}},%%{_APART},2)")
# These registers are fixed. They are not operands of the asm statement, which may have only 30.
_PIXEL = "ymm13"
_WEIGHT = ("ymm14", "ymm15")
_NUMBERS = f"{_X} {_LOWER} {_WEIGHTS} {_AHEAD} {_LEFT} {_APART} {_COLUMN} {_AHEAD_STEP}"
_CLOBBERED = f"{_NUMBERS} xmm13 xmm14 xmm15 cc memory".split()


def assembled_sums(pixels: int) -> str:
    """The C text of GB(add_columns), for tiles of at most this many pixels."""
    cases = "".join(_case(count, blocks) for count in range(1, pixels + 1) for blocks in (1, 2))
    return f"""
/* Distances in bytes between pixels, between columns of a kernel, and between prefetched lines; and
 * the number of the kernel's columns. */
typedef struct {{
  ptrdiff_t apart, column, ahead_step, columns;
}} GB(distances);

/* For each column of a kernel (at least one), adds the products of a block of input channels to s0
 * and s1, the sums for R pixels and O blocks of output channels. The weights are at `w`. For the
 * first column, the pixels are from `x` on. */
GK_INLINE void GB(add_columns)(GB(vec) *s0, GB(vec) *s1, const float *x, const float *w,
                               const float *ahead, const GB(distances) *far, const int R,
                               const int O) {{
  switch (2 * R + O) {{{cases}
  }}
}}
"""


def _case(pixels: int, blocks: int) -> str:
    lines = "\n".join(f'          "{line}\\n"' for line in _instructions(pixels, blocks))
    sums = ", ".join(f'[s{b}{r}] "+x"(s{b}[{r}])' for r in range(pixels) for b in range(blocks))
    clobbered = ", ".join(f'"{name}"' for name in _CLOBBERED)
    return f"""
    case {2 * pixels + blocks}:
      __asm__ volatile(
{lines}
          : {sums}
          : [x] "r"(x), [w] "r"(w), [ahead] "r"(ahead), [far] "r"(far)
          : {clobbered});
      break;"""


def _instructions(pixels: int, blocks: int) -> Iterator[str]:
    for at, register in enumerate((_APART, _COLUMN, _AHEAD_STEP, _LEFT)):
        yield f"mov {8 * at}(%[far]), %%{register}"
    yield from (f"mov %[x], %%{_X}", f"mov %[w], %%{_WEIGHTS}", f"mov %[ahead], %%{_AHEAD}")
    yield from (
        f"lea (%%{_APART},%%{_APART},{_NEAR - 1}), %%{_LOWER}",
        f"add %%{_X}, %%{_LOWER}",
        ".p2align 5",
        "1:",
    )
    yield from (
        f"prefetcht1 (%%{_AHEAD})",
        f"prefetcht1 {_LINE}(%%{_AHEAD})",
        f"add %%{_AHEAD_STEP}, %%{_AHEAD}",
    )
    for channel in range(_VECTOR):
        for b in range(blocks):
            offset = (channel * blocks + b) * _VECTOR * _FLOAT
            yield f"vmovaps {offset}(%%{_WEIGHTS}), %%{_WEIGHT[b]}"
        for r in range(pixels):
            place = _AT[r % _NEAR].format(_X if r < _NEAR else _LOWER)
            yield f"vbroadcastss {channel * _FLOAT}{place}, %%{_PIXEL}"
            yield from (
                f"vfmadd231ps %%{_WEIGHT[b]}, %%{_PIXEL}, %[s{b}{r}]" for b in range(blocks)
            )
    yield from (f"add %%{_COLUMN}, %%{_X}", f"add %%{_COLUMN}, %%{_LOWER}")
    yield from (
        f"add ${_VECTOR * blocks * _VECTOR * _FLOAT}, %%{_WEIGHTS}",
        f"dec %%{_LEFT}",
        "jnz 1b",
    )
