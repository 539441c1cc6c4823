"""The model that was asked for: loaded, changed as requested, and raised to the target opset. Also
the reference model that results are compared with.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onnx import ModelProto

from fusionc.attempt.conversion_plan import ConversionPlan
from fusionc.disk.known_opsets import require_known_opsets
from fusionc.disk.load import load
from fusionc.disk.mapped_weights import write_mapped
from fusionc.disk.onnx_checker import fault_of, require_as_valid
from fusionc.disk.places import require_place
from fusionc.disk.publish import Saved
from fusionc.disk.save import save
from fusionc.graph_kernel.library.location import library_for
from fusionc.model.operators import opsets_of
from fusionc.protos import copied
from fusionc.report.model_info import runtime_operators
from fusionc.requested.aipp.aipp_inputs import compared_with_numpy
from fusionc.requested.free_dim import Freed
from fusionc.requested.image_inputs import ImageInputs
from fusionc.requested.output_type import cast_outputs
from fusionc.requested.target_opset import LostKernel
from fusionc.runtime.runner import fault_of_loading

if TYPE_CHECKING:
    from fusionc.verify.reference_ahead import ReferenceAhead

OLDEST = 7  # the oldest opset for which onnxruntime promises to have all kernels


@dataclass(frozen=True)
class ReferenceModel:
    """The model that results are compared with."""

    file: Path
    sizes: Mapping[str, tuple[int, ...]] | None  # the input sizes for a run, by input name
    # shapes of inputs at which the result is verified in addition, by input name
    profiles: Sequence[Mapping[str, tuple[int, ...]]] = ()
    ahead: ReferenceAhead | None = None  # computes the reference outputs while the passes run


class AskedModel:
    """The model of a conversion as the passes get it. Each attempt needs a new copy.

    Three steps produce this model: `open` or `load`, `change`, `raise_opset`. `rebuild` does all
    three. The reference is the model after `change`, so that a comparison with it also detects
    mistakes of raising the opset.
    """

    def __init__(self, plan: ConversionPlan) -> None:
        self.plan = plan
        self.freed: Freed | None = None  # the sizes that became symbolic
        self.images = ImageInputs()  # the inputs whose layout changed
        self.types: Mapping[str, int] = {}  # the requested types of outputs, by output name
        self.lost: Sequence[LostKernel] = ()  # kernels that onnxruntime lacks at the target opset
        self.runtime_operators: Set[str] = frozenset()  # operators of onnxruntime in the model
        self.notices: list[str] = []  # for the user
        self._folder = os.fspath(plan.options.source.parent)

    def open(self) -> ModelProto:
        """Load the model for the first time. Check that the output path is writable, and keep the
        generated kernels that the model already has.
        """
        options = self.plan.options
        proto = self.load()
        self.runtime_operators = runtime_operators(proto)
        require_place(options.destination)
        self.notices += self.plan.requests.fixed_notices(proto)
        self.notices += self.plan.kept.find(proto)
        self.notices += self.plan.precision.customized.find(proto)
        self.notices += self.plan.kernels.inherit(
            proto, library_for(options.source), options.trust_kernels
        )
        return proto

    def load(self) -> ModelProto:
        """Load the model from its file. Weights are mapped from the file, unless --dump_graph is
        given, which needs them in the proto. Raises UsageError if the model lacks a node of
        --keep_nodes.
        """
        options = self.plan.options
        proto = load(options.source, maps=options.dump_graph is None)
        require_known_opsets(proto, options.source)
        self.plan.kept_nodes.require_known(proto)
        return proto

    def change(self, proto: ModelProto) -> ModelProto:
        """Change inputs and outputs of the proto as requested, and return the proto."""
        requests = self.plan.requests
        self.freed = requests.apply(proto, self._folder, self.freed)
        images = requests.change_images(proto)
        if images != self.images:  # the first time
            self.notices += images.notices()
        self.images = images
        self.types = requests.types(proto)
        return proto

    def raise_opset(self, proto: ModelProto) -> ModelProto:
        """Raise the changed model to the target opset. A notice names each kernel that is lost."""
        raised, lost = self.plan.requests.raise_opset(proto, self._folder)
        if not self.lost:
            self.lost = lost
            self.notices += map(str, lost)
        return raised

    def rebuild(self) -> ModelProto:
        """Load and change the model again, and raise its opset."""
        return self.raise_opset(self.change(self.load()))

    @contextmanager
    def reference(self, changed: ModelProto) -> Iterator[ReferenceModel]:
        """The reference model: the model's own file if no request changes the model, otherwise a
        temporary file with a copy of `changed`.

        If onnxruntime does not run opsets as old as the model's, the opset of the reference is
        raised as well. Raises UsageError if the changed model is not valid.
        """
        options = self.plan.options
        requests = self.plan.requests
        is_raised = self._is_too_old(changed)
        if not requests and not is_raised:
            yield ReferenceModel(options.source, options.verify_shape)
            return
        chosen = options.verify_shape or {}
        profiles = requests.profile_shapes(changed, self.images)
        first = {} if chosen else next(iter(profiles), {})
        sizes = {**requests.sizes_to_run(changed, chosen, self.images), **first, **chosen}
        self.notices += compared_with_numpy(
            self.images.preprocessing, opsets_of(changed).get("", 0)
        )
        copy = copied(changed)
        if is_raised:
            copy = self.raise_opset(copy)
            self.notices.append(
                f"onnxruntime does not run this model of opset {opsets_of(changed)['']}: the "
                f"result is compared with the model as raised to opset {requests.target_opset}"
            )
        with save(copy, options.source.parent, options.destination) as saved:
            del copy
            fault = fault_of(saved.model)
            if fault is not None and fault_of(options.source) is None:
                raise requests.unfit_error(fault)
            if self.freed is not None:
                requests.require_runs(saved.model, options.source, self.freed, self.images)
            yield ReferenceModel(saved.model, sizes, profiles[1 if first else 0 :])

    def _is_too_old(self, proto: ModelProto) -> bool:
        """Whether onnxruntime cannot run the model before its opset is raised."""
        return (
            self.plan.requests.target_opset is not None
            and opsets_of(proto).get("", 0) < OLDEST
            and fault_of_loading(self.plan.options.source) is not None
        )

    def finish(
        self, saved: Saved, proto: ModelProto, folder: Path, reference: ReferenceModel | None
    ) -> None:
        """Convert the outputs of a saved result to the requested types. The external data of the
        proto is in `folder`. With a reference, check that the result is still valid.
        """
        if self.types:
            cast_outputs(proto, self.types)
            write_mapped(proto, folder, saved.model)
            if reference is not None:
                require_as_valid(saved.model, reference.file)
