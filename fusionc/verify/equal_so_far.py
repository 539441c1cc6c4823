"""How far two models are the same where the outputs of the reference decide nothing: the values
inside of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from fusionc.errors import FusioncError
from fusionc.operators.deciding_operators import JUMPS
from fusionc.verify.locate import locate

_JUMPS = {name for _, name in JUMPS}


def equal_so_far(
    reference: Path,
    candidate: Path,
    input_shape: Mapping[str, tuple[int, ...]] | None,
    inputs: Path | None,
    progress: Callable[[str], None],
) -> str:
    """What of two models is the same, in words: all that both have under the same names, or all up
    to an operator that decides by the last bit. "" where something else differs first, or nothing
    can be compared.

    Of scores that are nearly the same, TopK takes some in one model and others in the other one;
    what is behind it says nothing then, what is in front of it does.
    """
    try:
        found = locate(
            reference,
            candidate,
            input_shape=input_shape,
            inputs=inputs,
            seeds=(0,),
            progress=progress,
        )
    except FusioncError:  # the models run, but not in parts
        return ""
    if not found.compared:
        return ""
    if not found.name:
        return f"all {found.compared} values inside that both models have are equal"
    operator = found.reference.split()[0]
    if operator not in _JUMPS:
        return ""
    return f"the {found.compared} values inside that both models have in front of {operator} ({found.name}) are equal"
