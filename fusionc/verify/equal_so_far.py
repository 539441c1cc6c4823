"""If the outputs of two models cannot be compared, compare the values inside them, and find out up
to which point they are equal.
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
    """A sentence that says up to which point the inner values of two models are equal. These are
    the values that both models have under the same name. Either all of them are equal, or all
    before an operator such as TopK that chooses between nearly equal numbers. "" if another value
    differs first, or if nothing can be compared.

    Such an operator may choose differently in the two models because of the last bit of a number.
    The values after it then prove nothing, but the values before it do.
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
        return f"all {located.compared} inner values that both models have are equal"
    operator = located.reference.split()[0]
    if operator not in _JUMPS:
        return ""
    which = f"the {located.compared} inner values that both models have"
    return f"{which} before {operator} ({located.name}) are equal"
