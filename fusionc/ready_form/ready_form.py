"""The ready form of a result: made, compared with it, and described in its session file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import TensorProto

from fusionc import protos
from fusionc.disk.content import content_of
from fusionc.disk.external_data import external_entries
from fusionc.disk.places import cannot_be_written
from fusionc.disk.publish import Saved, is_copy
from fusionc.errors import UsageError
from fusionc.ready_form.bit_for_bit import bit_for_bit
from fusionc.ready_form.machine import this_machine
from fusionc.ready_form.ready_files import write_ready_files
from fusionc.ready_form.session_file import (
    FileIdentity,
    ReadyForm,
    SessionFile,
    identity_of,
    session_file_of,
)
from fusionc.runtime.run_errors import RunError


@dataclass(frozen=True)
class MadeReady:
    """What goes beside a model: `data` to the places named there before it, then `session_file`, to
    its usual place.

    Without the latter there is no ready form; `notice` says why, or what it is tied to.
    """

    notice: str
    data: tuple[tuple[Path, Path], ...] = ()
    session_file: Path | None = None


def make_ready(
    saved: Saved,
    kernels: Path | None,
    *,
    is_compared: bool,
    shapes: Mapping[str, tuple[int, ...]],
    inputs: Path | None,
) -> MadeReady:
    """Make the ready form of a saved model, in its workshop, and run both where that is wanted.

    Raises FusioncError where its files cannot be written.
    """
    try:
        files = write_ready_files(saved, kernels)
        runs, different = (
            bit_for_bit(saved.model, files.model, kernels, shapes, inputs)
            if is_compared
            else (0, "")
        )
    except RunError as error:
        return MadeReady(f"no ready form was made, as onnxruntime cannot load the model: {error}")
    except (
        UsageError
    ) as error:  # as inputs do not fit a model that runs without onnxruntime's optimizers alone
        return MadeReady(f"no ready form was made: {error.what}")
    except OSError as error:
        raise cannot_be_written(error, saved.output) from error
    if different:
        return MadeReady(f"the ready form is not kept: {different}")
    folder = saved.output.parent
    machine = this_machine()
    model = _Placed(files.model, folder)
    weights = None if files.weights is None else _Placed(files.weights, folder)
    form = ReadyForm(
        model.identity(),
        None if weights is None else weights.identity(),
        "" if kernels is None else content_of(kernels),
        machine,
    )
    file = files.model.with_name(session_file_of(saved.output).name)
    described = SessionFile(
        identity_of(saved.model, saved.output.name), _weights_of_others(saved), form
    )
    file.write_text(described.text(), encoding="utf-8")
    tie = (
        f"the ready form is for onnxruntime {machine.onnxruntime} on processors like this "
        "one; fusionc.session uses it"
    )
    proof = f"equal to the bit in {runs} runs" if runs else "not verified"
    data = tuple((placed.file, placed.place) for placed in (weights, model) if placed is not None)
    return MadeReady(f"{tie} there, and the model elsewhere ({proof})", data, file)


def _weights_of_others(saved: Saved) -> tuple[FileIdentity, ...]:
    """Files that the model has in common with the one it was made of; they lie beside it before it
    is published.
    """
    folder = saved.output.parent
    if saved.model.parent != folder:
        return ()
    proto = onnx.load(saved.model, load_external_data=False)
    external = [
        tensor
        for tensor in protos.tensors_of(proto)
        if tensor.data_location == TensorProto.EXTERNAL
    ]
    names = dict.fromkeys(external_entries(tensor)["location"] for tensor in external)
    return tuple(identity_of(folder / name, name) for name in names)


class _Placed:
    """A file that goes to a name of its content in a folder; where it lies there already, that one
    stays.
    """

    def __init__(self, file: Path, folder: Path) -> None:
        self.file = file
        self.place = folder / file.name

    def identity(self) -> FileIdentity:
        return identity_of(
            self.place if is_copy(self.place, self.file) else self.file, self.place.name
        )
