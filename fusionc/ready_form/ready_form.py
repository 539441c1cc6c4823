"""Make the ready form of a result (the result as onnxruntime has optimized it), compare it with the
result, and describe it in a session file.
"""

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
    """The files of a ready form. `data` is published before the result, and `session_file` after
    it.
    """

    notice: str  # says where the form is valid, or why no form was made
    data: tuple[tuple[Path, Path], ...] = ()  # temporary files with their final paths
    session_file: Path | None = None  # None if no ready form was made


def make_ready(
    saved: Saved,
    kernels: Path | None,
    *,
    is_compared: bool,
    shapes: Mapping[str, tuple[int, ...]],
    inputs: Path | None,
) -> MadeReady:
    """Make the ready form of a saved model in its temporary folder. With `is_compared` run both and
    compare them bit for bit.

    Raises FusioncError if the files cannot be written.
    """
    try:
        files = write_ready_files(saved, kernels)
        runs = 0
        if is_compared:
            runs, difference = bit_for_bit(saved.model, files.model, kernels, shapes, inputs)
            if difference:
                return MadeReady(f"the ready form is not kept: {difference}")
    except RunError as error:
        return MadeReady(f"no ready form was made: onnxruntime cannot load the model: {error}")
    except UsageError as error:
        # With onnxruntime's optimizers on, the model may not run on the user's inputs.
        return MadeReady(f"no ready form was made: {error.what}")
    except OSError as error:
        raise cannot_be_written(error, saved.output) from error
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
    content = SessionFile(identity_of(saved.model, saved.output.name), _shared_weights(saved), form)
    file.write_text(content.text(), encoding="utf-8")
    machines = f"onnxruntime {machine.onnxruntime} on processors like this one"
    proof = f"equal to the bit in {runs} runs" if runs else "not verified"
    notice = (
        f"the ready form ({proof}) is for {machines}; on other machines fusionc.session loads the "
        "model itself"
    )
    data = tuple((placed.file, placed.place) for placed in (weights, model) if placed is not None)
    return MadeReady(notice, data, file)


def _shared_weights(saved: Saved) -> tuple[FileIdentity, ...]:
    """The data files that the result shares with the original model. They are already in the folder
    of the result.
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
    """A file that will be published in a folder. Its name contains the hash of its content. If the
    folder already has a file with this name and content, that file stays.
    """

    def __init__(self, file: Path, folder: Path) -> None:
        self.file = file
        self.place = folder / file.name

    def identity(self) -> FileIdentity:
        return identity_of(
            self.place if is_copy(self.place, self.file) else self.file, self.place.name
        )
