"""All requests to change the model: sizes, outputs and opset before the passes run, and types of
outputs after the passes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from onnx import ModelProto

from fusionc.errors import UsageError
from fusionc.requested.aipp.aipp_file import AippBlock
from fusionc.requested.dimension_size import OPEN, DimensionSize
from fusionc.requested.free_dim import Freed, FreeDims, failure, free_sizes, require_runs
from fusionc.requested.image_inputs import ImageInputs, change_images
from fusionc.requested.input_layout import NHWC
from fusionc.requested.input_shape import (
    changed_sizes,
    fix_sizes,
    fixed_sizes,
    odd_sizes,
    sizes_to_run,
)
from fusionc.requested.out_nodes import set_outputs
from fusionc.requested.output_type import types_of_outputs
from fusionc.requested.size_profiles import SizeProfiles
from fusionc.requested.target_opset import LostKernel, raise_opset
from fusionc.requested.types_of_a_run import TypesOfARun


@dataclass(frozen=True)
class Requests:
    """The values of options: ATC's --input_shape, its options for several sizes, --out_nodes,
    --output_type, --insert_op_conf and --input_format, and --free_dim and --target_opset. None
    means that the option was not given.
    """

    input_shape: Mapping[str, Sequence[DimensionSize]] | None = None
    out_nodes: str | Sequence[str] | None = None
    output_type: str | Mapping[str, str] | None = None
    free_dim: FreeDims | None = None
    target_opset: int | None = None
    profiles: SizeProfiles | None = None
    aipp: Sequence[AippBlock] = ()
    input_format: str | None = None
    # runs the model to find the types of values that become outputs
    ran: TypesOfARun = field(default_factory=TypesOfARun)

    def __bool__(self) -> bool:
        """Whether inputs or outputs of the model change."""
        return any(value is not None for value in self._changes().values())

    def _changes(self) -> dict[str, object]:
        """The options that change inputs or outputs, by name; None for those not given."""
        return {
            "input_shape": self.input_shape,
            "free_dim": self.free_dim,
            "insert_op_conf": self.aipp or None,
            "input_format": self.input_format if self.input_format == NHWC else None,
            "out_nodes": self.out_nodes,
        }

    def apply(self, model: ModelProto, folder: str, freed: Freed | None = None) -> Freed | None:
        """Change the sizes and outputs of the model, whose external data is in `folder`. If fixed
        sizes became symbolic, return this change, otherwise None. `freed` is the result of an
        earlier call for another copy of the same model. Raises UsageError for requests that do not
        fit the model.
        """
        others = changed_sizes(model, self.input_shape or {})
        free_dim = self._freed_axes(model)
        if freed is not None:
            freed.again(model)
        elif self.free_dim is not None or free_dim or others:
            freed = free_sizes(model, free_dim, others, self._freeing_option(others))
        if self.input_shape is not None:
            fix_sizes(model, self.input_shape, folder)
        if self.profiles is not None:
            self.profiles.require_consistency(model)
        if self.out_nodes is not None:
            set_outputs(model, self.out_nodes, folder, self.ran)
        return freed

    def _freed_axes(self, model: ModelProto) -> FreeDims:
        """The axes of --free_dim, and those that are open in the profiles but not in the model."""
        profiles = {} if self.profiles is None else self.profiles.fixed_axes(model)
        free_dim = self.free_dim or {}
        return {
            name: {**profiles.get(name, {}), **free_dim.get(name, {})}
            for name in {**free_dim, **profiles}
        }

    def _freeing_option(self, others: Collection[str]) -> str:
        """The option to name in an error about sizes that cannot become open."""
        if self.profiles is not None and self.free_dim is None:
            return self.profiles.option
        return "--input_shape" if others else "--free_dim"

    def profile_shapes(
        self, changed: ModelProto, images: ImageInputs
    ) -> list[dict[str, tuple[int, ...]]]:
        """For each profile, the shapes of inputs of the changed model. Raises UsageError if AIPP
        fixes a size that the profiles change.
        """
        if self.profiles is None:
            return []
        for name, axes in self.profiles.axes.items():
            if max(axes) > 1 and not images.has_sizes_of_model(name):
                what = f"{self.profiles.option} changes the sizes of {name}, and AIPP crops or pads"
                hint = "switch crop and padding off, and leave out src_image_size_w and _h"
                raise UsageError(what, where=self.profiles.option, hint=hint, code="E10001")
        dims = {value.name: value.type.tensor_type.shape.dim for value in changed.graph.input}
        return [
            {
                name: tuple(
                    dim.dim_value if dim.dim_value > 0 else size
                    for dim, size in zip(dims[name], images.shape(name, shape), strict=True)
                )
                for name, shape in shapes.items()
            }
            for shapes in self.profiles.shapes
        ]

    def change_images(self, model: ModelProto) -> ImageInputs:
        """Change the type and the layout of inputs with images, after `apply`. Return these inputs.
        Raises UsageError if the model does not have them.
        """
        return change_images(model, self.aipp, self.input_format)

    def raise_opset(self, model: ModelProto, folder: str) -> tuple[ModelProto, list[LostKernel]]:
        """Raise the model to the target opset. Return the model and the kernels that onnxruntime
        lacks at this opset. Raises UsageError and FusioncError as the function `raise_opset` does.
        """
        if self.target_opset is None:
            return model, []
        lost = list[LostKernel]()
        return raise_opset(model, self.target_opset, folder, lost.append), lost

    def types(self, changed: ModelProto) -> dict[str, int]:
        """The requested types of the outputs of the changed model, by output name, without types
        that the outputs already have. Raises UsageError for requests that do not fit the model.
        """
        return {} if self.output_type is None else types_of_outputs(changed, self.output_type)

    def sizes_to_run(
        self, changed: ModelProto, chosen: Mapping[str, Sequence[int]], images: ImageInputs
    ) -> dict[str, tuple[int, ...]]:
        """Shapes to run the changed model with, for its inputs with a range of sizes. These shapes
        are consistent with the shapes that the user gave (`chosen`).
        """
        shapes = (self.input_shape or {}).items()
        return sizes_to_run(
            changed, {name: images.shape(name, shape) for name, shape in shapes}, chosen
        )

    def notices(self, verify_shape: Mapping[str, Sequence[int]] | None) -> list[str]:
        """A notice that names the sizes of --verify_shape which --input_shape does not allow."""
        outside = odd_sizes(verify_shape or {}, self.input_shape or {})
        return (
            [f"--verify_shape does not fit --input_shape: {'; '.join(outside)}"] if outside else []
        )

    def fixed_notices(self, model: ModelProto) -> list[str]:
        """A notice about dimensions that keep their fixed size although --input_shape allows other
        sizes. `model` is the unchanged model.
        """
        fixed = fixed_sizes(model, self.input_shape or {}, self._freed_axes(model))
        return [f"--input_shape does not make sizes dynamic: {'; '.join(fixed)}"] if fixed else []

    def require_runs(self, file: Path, source: Path, freed: Freed, images: ImageInputs) -> None:
        """Raise UsageError if the changed model in `file` does not run with other sizes, although
        the model in `source` runs. If there are profiles, this is not tested here, because the
        verification runs every profile.
        """
        if self.profiles is not None:
            return
        freed_only = {
            name: {
                images.axis(name, axis): size
                for axis, size in axes.items()
                if self._is_open(name, axis)
            }
            for name, axes in freed.sizes.items()
        }
        if any(freed_only.values()):
            require_runs(file, freed_only)
        elif (reason := failure(file, {})) and not failure(source, {}):
            raise self.unfit_error(reason)

    def _is_open(self, name: str, axis: int) -> bool:
        shape = (self.input_shape or {}).get(name, ())
        return axis >= len(shape) or not isinstance(shape[axis], int) or shape[axis] == OPEN

    def unfit_error(self, reason: str, unknown: Sequence[str] = ()) -> UsageError:
        """The error for a model that runs unchanged, but not with the requested changes. `unknown`
        are inputs for which fusionc does not know which values fit the sizes. If there are any, the
        changes may be possible with the right values.
        """
        what = f"the model does not work with the requested changes: {reason}"
        hint = "ask for other sizes or outputs"
        if unknown:
            names = ", ".join(unknown)
            hint += (
                f"; if the sizes that fit depend on the values of {names}, give these values with "
                "--inputs"
            )
        return UsageError(what, where=str(self), hint=hint, code="E10001")

    def __str__(self) -> str:
        options = self._changes().items()
        return ", ".join(f"--{name}" for name, value in options if value is not None)
