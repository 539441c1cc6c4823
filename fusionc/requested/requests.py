"""Everything that was asked for of the model: sizes, outputs and opset before the passes, types of
outputs after them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from onnx import ModelProto

from fusionc.errors import UsageError
from fusionc.requested.dimension_size import OPEN, DimensionSize
from fusionc.requested.free_dim import Freed, FreeDims, failure, free_sizes, require_runs
from fusionc.requested.input_shape import (
    changed_sizes,
    fix_sizes,
    fixed_sizes,
    odd_sizes,
    sizes_to_run,
)
from fusionc.requested.out_nodes import set_outputs
from fusionc.requested.output_type import types_of_outputs
from fusionc.requested.target_opset import LostKernel, raise_opset
from fusionc.requested.types_of_a_run import TypesOfARun


@dataclass(frozen=True)
class Requests:
    """ATC's --input_shape, --out_nodes and --output_type, --free_dim and --target_opset; None
    leaves the model as it is.
    """

    input_shape: Mapping[str, Sequence[DimensionSize]] | None = None
    out_nodes: str | Sequence[str] | None = None
    output_type: str | Mapping[str, str] | None = None
    free_dim: FreeDims | None = None
    target_opset: int | None = None
    ran: TypesOfARun = field(default_factory=TypesOfARun)  # of values that become outputs

    def __bool__(self) -> bool:
        """Whether the inputs and outputs of the model change."""
        return any(given is not None for given in (self.input_shape, self.free_dim, self.out_nodes))

    def apply(self, model: ModelProto, folder: str, freed: Freed | None = None) -> Freed | None:
        """Change the model, whose external data lies in `folder`; return what became symbolic
        first. `freed` is what an earlier call returned for the same model. Raises UsageError for
        requests that do not fit the model.
        """
        others = changed_sizes(model, self.input_shape or {})
        if freed is not None:
            freed.again(model)
        elif self.free_dim is not None or others:
            freed = free_sizes(model, self.free_dim or {}, others)
        if self.input_shape is not None:
            fix_sizes(model, self.input_shape, folder)
        if self.out_nodes is not None:
            set_outputs(model, self.out_nodes, folder, self.ran)
        return freed

    def raise_opset(self, model: ModelProto, folder: str) -> tuple[ModelProto, list[LostKernel]]:
        """Raise the model to the target opset; return it with the kernels of onnxruntime that this
        costs. Raises UsageError and FusioncError as the function `raise_opset` does.
        """
        if self.target_opset is None:
            return model, []
        lost = list[LostKernel]()
        return raise_opset(model, self.target_opset, folder, lost.append), lost

    def types(self, changed: ModelProto) -> dict[str, int]:
        """The outputs of the changed model that get another type in the end, with that. Raises
        UsageError for requests that do not fit the model.
        """
        return {} if self.output_type is None else types_of_outputs(changed, self.output_type)

    def sizes_to_run(
        self, changed: ModelProto, chosen: Mapping[str, Sequence[int]]
    ) -> dict[str, tuple[int, ...]]:
        """Shapes to run the changed model with, for its inputs with a range of sizes; they agree
        with the `chosen` shapes.
        """
        return sizes_to_run(changed, self.input_shape or {}, chosen)

    def notices(self, verify_shape: Mapping[str, Sequence[int]] | None) -> list[str]:
        """Which of the sizes to verify with were not asked for."""
        outside = odd_sizes(verify_shape or {}, self.input_shape or {})
        return (
            [f"--verify_shape is outside of --input_shape: {'; '.join(outside)}"] if outside else []
        )

    def fixed_notices(self, model: ModelProto) -> list[str]:
        """Notices of dimensions that stay fixed although other sizes were allowed; `model` is as in
        its file.
        """
        left = fixed_sizes(model, self.input_shape or {}, self.free_dim or {})
        return [f"--input_shape opens no dimension: {'; '.join(left)}"] if left else []

    def require_runs(self, file: Path, source: Path, freed: Freed) -> None:
        """Raise UsageError if the changed model in `file` does not run with another size, although
        the model in `source` runs.
        """
        freed_only = {
            name: {axis: size for axis, size in axes.items() if self._is_open(name, axis)}
            for name, axes in freed.sizes.items()
        }
        if any(freed_only.values()):
            require_runs(file, freed_only)
        elif (failed := failure(file, {})) and not failure(source, {}):
            raise self.unfit_error(failed)

    def _is_open(self, name: str, axis: int) -> bool:
        shape = (self.input_shape or {}).get(name, ())
        return axis >= len(shape) or not isinstance(shape[axis], int) or shape[axis] == OPEN

    def unfit_error(self, reason: str, unknown: Sequence[str] = ()) -> UsageError:
        """The error for a model that works as it is, and not as it was asked for, unless the values
        of the `unknown` inputs are at fault.
        """
        what = f"the model does not work with what was asked to change of it: {reason}"
        hint = "ask for other sizes or outputs"
        if unknown:
            names = ", ".join(unknown)
            hint += (
                f", or, where a value decides which sizes fit, give values of {names} with --inputs"
            )
        return UsageError(what, where=str(self), hint=hint, code="E10001")

    def __str__(self) -> str:
        options = {
            "input_shape": self.input_shape,
            "free_dim": self.free_dim,
            "out_nodes": self.out_nodes,
        }
        return ", ".join(f"--{name}" for name, value in options.items() if value is not None)
