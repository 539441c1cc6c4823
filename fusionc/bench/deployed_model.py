"""A model as a user runs it: the file to load, the kernels and the session settings."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from fusionc.errors import UsageError
from fusionc.graph_kernel.library.cache import known
from fusionc.graph_kernel.library.location import has_areas, is_own, library_for
from fusionc.ready_form.session import NotReady, ready_model
from fusionc.ready_form.session_file import session_file_of
from fusionc.ready_form.tuned_settings import NotTuned, tuned_settings
from fusionc.runtime.custom_operators import libraries_in_use
from fusionc.runtime.session_settings import SessionSettings


@dataclass(frozen=True)
class DeployedModel:
    """The file, the kernels and the settings of a session."""

    file: Path
    kernels: Path | None = None
    settings: SessionSettings = field(default_factory=SessionSettings)
    is_optimized: bool = False  # whether this is a ready form, already optimized by onnxruntime

    def with_threads(self, threads: int) -> DeployedModel:
        """The same model with this number of threads; 0 changes nothing."""
        return replace(self, settings=replace(self.settings, threads=threads)) if threads else self

    def arguments(self) -> tuple[str, list[str], dict[str, object], bool]:
        """The arguments with which a child process creates the session."""
        own = [] if self.kernels is None else [str(self.kernels.resolve())]
        return (
            os.path.abspath(self.file),
            [*libraries_in_use(), *own],
            self.settings.as_json(),
            self.is_optimized,
        )


def deployed(model: Path, trust_kernels: bool) -> tuple[DeployedModel, list[str]]:
    """A model as `fusionc.session` opens it, and notices for the user.

    Kernels that were not built by this user's fusionc may contain any machine code. They are loaded
    only with `trust_kernels`. Raises UsageError if the model does not exist.
    """
    if not model.is_file():
        problem = "is a folder" if model.is_dir() else "does not exist"
        hint = "give the path of an .onnx file"
        raise UsageError(f"the model {problem}", where=str(model), hint=hint, code="E10410")
    library = library_for(model)
    kernels = None
    if library.is_file():
        kernels = library if trust_kernels else known(library)
    notices = [] if kernels is not None else _notices_without_kernels(model, library)
    if session_file_of(model).exists():
        try:
            ready = ready_model(model, library)
            if ready is not None:
                return DeployedModel(ready, kernels, is_optimized=True), notices
            return DeployedModel(model, kernels, tuned_settings(model)), notices
        except NotReady as reason:
            notices.append(f"the ready form of {model.name} is not used: it {reason}")
        except NotTuned as reason:
            notices.append(f"the settings of {model.name} are not used: they {reason}")
    return DeployedModel(model, kernels), notices


def _notices_without_kernels(model: Path, library: Path) -> list[str]:
    """Notices that say why a model runs without the kernels of its areas."""
    if library.is_file():
        what = (
            f"{library.name} was not made by this user's fusionc, so {model.name} runs without it"
        )
        return [f"{what}; --trust_kernels loads it"]
    if not has_areas(model) or any(is_own(Path(file)) for file in libraries_in_use()):
        return []
    return [f"{library.name} is not next to {model.name}, so its areas run without kernels"]
