"""What runs behind a kernel finds the upper halves of vector registers 0: else it waits for them,
if it is code for any x86-64.
"""

from __future__ import annotations

import re

import pytest
from areas import CHAIN, NORM, area_of
from machine_code import needs_x86_code, vector_functions

from fusionc.graph_kernel.library.build_library import build

pytestmark = [pytest.mark.usefixtures("needs_a_compiler"), needs_x86_code]

TEXTS = {
    "chain": CHAIN,
    "norm": NORM,
    "softmax": "g (float[N,M] x) => (float[N,M] z) { z = Softmax(x) }",
    "columns": "g (float[N,M] x) => (float[1,M] z) <int64[1] a = {0}> { y = Exp(x) z = ReduceSum(y, a) }",
    "turned": "g (float16[N,M] x) => (float16[M,N] z) { y = Tanh(x) z = Transpose(y) }",
    "tanh": "g (double[N,M] x) => (double[N,M] z) { y = Softmax(x) z = Tanh(y) }",
    "erf": "g (double[N,M] x) => (double[N,M] z) { y = Softmax(x) z = Erf(y) }",
    "fmod": "g (float[N,M] x) => (float[N,M] z) { y = Softmax(x) z = Mod <fmod = 1>(y, x) }",
}
_CALLS = re.compile(r"call.*<(tanh|erf|fmodf)@plt>")


def test_loops_leave_no_upper_halves_behind() -> None:
    """Neither where they end nor where they call the C library."""
    library = build([area_of(text, name=name) for name, text in TEXTS.items()]).library
    assert library is not None
    functions = vector_functions(library)
    assert len(functions) >= 2 * len(TEXTS)
    calling = 0
    for name, instructions in functions.items():
        zeroed = [
            number for number, line in enumerate(instructions) if line.startswith("vzeroupper")
        ]
        calls = [number for number, line in enumerate(instructions) if _CALLS.match(line)]
        assert zeroed, name
        assert not calls or zeroed[0] < calls[0] or calls[0] < _first_wide(instructions), name
        calling += bool(calls)
    assert calling >= 2 * 3


def _first_wide(instructions: list[str]) -> int:
    return next(number for number, line in enumerate(instructions) if re.search(r"%[yz]mm", line))
