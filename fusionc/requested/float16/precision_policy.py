"""Which nodes compute in float16 according to the user: by the mode of --precision_mode_v2, and by
options for single nodes and operators.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass, field

from fusionc.model.graph import Edge, Node
from fusionc.operators.deciding_operators import MOVES
from fusionc.requested.float16.customized_types import CustomizedTypes, Form
from fusionc.requested.float16.mixed_lists import MATRIX_OPERATORS, MixedLists
from fusionc.requested.float16.precision_modes import (
    CUBE_FP16,
    FP16,
    LOWERING,
    MIXED_FLOAT16,
    ORIGIN,
    PRODUCTS_FLOAT16,
    SEARCHING,
)
from fusionc.requested.kept_types import KeptTypes

FOLLOWED = "the nodes before it compute in float32"
_KEPT = "--keep_dtype keeps the type"
_LISTED = "the operator is on the black list"
_MODE = "the mode lowers only convolutions and matrix products"


@dataclass(frozen=True)
class PrecisionPolicy:
    """Which nodes compute in float16."""

    mode: str = ORIGIN
    kept: KeptTypes = field(default_factory=KeptTypes)
    customized: CustomizedTypes = field(default_factory=CustomizedTypes)
    lists: MixedLists = field(default_factory=MixedLists)

    def __bool__(self) -> bool:
        """Whether any node may change its type."""
        return self.mode in LOWERING or bool(self.customized)

    @property
    def searches(self) -> bool:
        """Whether nodes that lose too much stay in float32."""
        return self.mode in SEARCHING

    def form_of(
        self, node: Node, inputs: Collection[Edge], halves: Container[Edge], *, is_wide: bool
    ) -> tuple[Form, str]:
        """The form in which a node computes that could compute in float16, and the reason if that
        is float32 ("" if the mode alone decides, or if `is_wide`). `inputs` are the inputs of the
        node that could be float16, `halves` all values that are float16. `is_wide` says that the
        node would lose too much precision in float16.
        """
        customized = self.customized.form_of(node)
        if customized is not None:
            return customized, "--customize_dtypes keeps the type"
        if is_wide or self.kept.keeps(node):
            return Form.FLOAT32, "" if is_wide else _KEPT
        if self.mode in (CUBE_FP16, PRODUCTS_FLOAT16):
            lowered = Form.ROUNDED if self.mode == CUBE_FP16 else Form.FLOAT16
            return (lowered, "") if node.op in MATRIX_OPERATORS else (Form.FLOAT32, _MODE)
        if self.mode == MIXED_FLOAT16:
            return self._mixed(node, inputs, halves)
        return (Form.FLOAT16, "") if self.mode == FP16 else (Form.FLOAT32, "")

    def _mixed(
        self, node: Node, inputs: Collection[Edge], halves: Container[Edge]
    ) -> tuple[Form, str]:
        if node.op in self.lists.white:
            return Form.FLOAT16, ""
        if node.op in self.lists.black:
            return Form.FLOAT32, _LISTED
        computed = [value for value in inputs if not value.is_constant]
        follows = any(value in halves for value in computed)
        # A node that only moves elements of constants is lowered too, such as a Gather of rows of
        # weights.
        if follows or (not computed and node.op in MOVES):
            return Form.FLOAT16, ""
        return Form.FLOAT32, FOLLOWED
