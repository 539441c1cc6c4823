"""An area: operators that graph kernel fusion makes one. The stages make areas, and kernels are
built of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag

import numpy as np
import onnx


@dataclass(frozen=True)
class AreaValue:
    """A value of an area. `dtype` is an onnx.TensorProto data type.

    A dimension is a number, or a symbol: values with the same symbol have the same size there. A
    size about which nothing is known has a symbol of its own; it may be any number when the model
    runs, 0 and 1 too, so that it may broadcast against another one.
    """

    name: str
    dtype: int
    shape: tuple[int | str, ...]


class KernelKind(Flag):
    """What the kernel of an area is made of: loops of its own, or steps over images, or rows, in a
    blocked layout; and by which algorithms with fewer multiplications, Winograd's of 3×3
    convolutions and Strassen's of products.
    """

    LOOPS = 1
    BLOCKED = 2
    # each bit has a name: Python 3.11.2 loses others where flags are combined
    FEWER_OF_CONVOLUTIONS = 4
    FEWER_OF_MATRICES = 8
    WINOGRAD = BLOCKED | FEWER_OF_CONVOLUTIONS
    STRASSEN = BLOCKED | FEWER_OF_MATRICES


@dataclass(frozen=True)
class Area:
    """Operators in topological order, and the values that they read and write by name.

    `name` is the operator's in the domain fusionc.gk, a C identifier. `values` has every value that
    is not a constant: inputs, interior ones and outputs. `constants` are read by nodes too:
    scalars, axes, small tables. Larger constants are inputs. An omitted optional input of a node is
    "".
    """

    name: str
    nodes: tuple[onnx.NodeProto, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, AreaValue]
    opset: int
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    kind: KernelKind = KernelKind.LOOPS
