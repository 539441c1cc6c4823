"""Find out how far two models are equal, by their inner values, if their outputs cannot be
compared.
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
    """A sentence about the inner values that are equal: all values that both models have under the
    same names, or all before an operator that decides by the last bit. "" if another value differs
    first, or if nothing can be compared.

    If scores are nearly equal, TopK may choose different ones in the two models. Then later values
    prove nothing, and earlier ones do.
    """
    try:
        located = locate(
            reference,
            candidate,
            input_shape=input_shape,
            inputs=inputs,
            seeds=(0,),
            progress=progress,
        )
    except FusioncError:  # the models run, but not in parts
        return ""
    if not located.compared:
        return ""
    if not located.name:
        return f"all {located.compared} values inside that both models have are equal"
    operator = located.reference.split()[0]
    if operator not in _JUMPS:
        return ""
    which = f"the {located.compared} values inside that both models have"
    return f"{which} before {operator} ({located.name}) are equal"
