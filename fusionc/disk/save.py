"""A ModelProto → files: written beside the target first, moved into place when they are known to be right.

Where the weights go: external ones stay external. In the model's own folder the result goes on using the original
file; elsewhere the file is copied, or repacked where rewriting has left parts of it unused. Nothing is read into
memory to be written. `external_weight` 1 moves all weights of the graph into one file of the result, 0 moves all
into the model; without it, weights move out only where the model would pass protobuf's limit.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import onnx
from onnx import TensorProto

from fusionc.errors import FusioncError, UsageError
from fusionc.model import tensors, walk

LIMIT = 2_000_000_000  # bytes of weights in one protobuf file, with room for the rest (the limit is 2³¹ − 1)
_WORTH_MOVING = 1024  # bytes; smaller tensors stay in the model, where onnx needs them to infer shapes
_CHUNK = 16 << 20
_PAGE = 4096  # offsets at page boundaries let a runtime map the weights


@dataclass(frozen=True)
class Saved:
    """Files written in a temporary folder: `model` can be run from there, `publish` moves all to their places."""

    model: Path
    moves: tuple[tuple[Path, Path], ...]
    outdated: Path | None = None  # what belonged to an older model of that name, and goes

    def publish(self) -> None:
        """Move the files to their places, the model last. An older model of that name goes first where it would
        otherwise be left beside weights that are not its own, should this be interrupted."""
        *weights, (_, output) = self.moves
        if any(target.exists() for _, target in weights) and output.exists():
            os.replace(output, self.model.with_name("before"))
        for source, target in self.moves:
            os.replace(source, target)
        if self.outdated is not None and not self.outdated.is_dir():  # a folder is nobody's library
            self.outdated.unlink(missing_ok=True)

    def beside(self, file: Path, target: Path) -> Saved:
        """The same files and a copy of one more, for `target`, which lies beside the model now and later."""
        copy = self.model.with_name(target.name)
        shutil.copyfile(file, copy)
        *weights, model = self.moves
        return Saved(self.model, (*weights, (copy, target), model))

    def without(self, target: Path) -> Saved:
        """The same files, and nothing at `target`."""
        return Saved(self.model, self.moves, target)

    @property
    def nbytes(self) -> int:
        return sum(source.stat().st_size for source, _ in self.moves)


@contextmanager
def save(proto: onnx.ModelProto, folder: Path, output: Path, external_weight: int | None = None) -> Iterator[Saved]:
    """Write `proto`, whose external data lies in `folder`, for `output`, into a temporary folder beside it.

    Changes where the proto says that its weights are. Whatever happens, the temporary folder is removed.
    Raises FusioncError where the target cannot be written or the weights do not fit.
    """
    try:
        workshop = Path(tempfile.mkdtemp(prefix=".fusionc-", dir=output.parent))
    except OSError as error:
        raise FusioncError(
            f"the result cannot be written: {error.strerror}",
            where=str(output.parent),
            hint="create the folder, or give another one with --output",
            code="E13004",
        ) from error
    try:
        yield _Writer(proto, folder, output, workshop).write(external_weight)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


class _Writer:
    def __init__(self, proto: onnx.ModelProto, folder: Path, output: Path, workshop: Path) -> None:
        self.proto, self.folder, self.output, self.workshop = proto, folder, output, workshop
        self.data_name = output.name + ".data"
        self.moves: list[tuple[Path, Path]] = []

    def write(self, external_weight: int | None) -> Saved:
        everything = list(walk.tensors_of(self.proto))
        external = [t for t in everything if t.data_location == TensorProto.EXTERNAL]
        self._spare_weights(external)
        movable = [t for t in _initializers(self.proto.graph) if tensors.byte_size(t) >= _WORTH_MOVING]
        inline = sum(tensors.byte_size(t) for t in everything if t.data_location != TensorProto.EXTERNAL)
        if external_weight == 0:
            self._require_space(inline + sum(map(tensors.byte_size, external)))
            self._move_in(external)
        elif external_weight == 1 or inline > LIMIT:
            self._pack(movable, external)
        else:
            self._keep_files(external)
        self._require_space(sum(tensors.byte_size(t) for t in everything if t.data_location != TensorProto.EXTERNAL))
        model = self.workshop / self.output.name
        model.write_bytes(self.proto.SerializeToString())
        return Saved(model, (*self.moves, (model, self.output)))

    def _spare_weights(self, external: list[TensorProto]) -> None:
        """Refuse an output that is a data file of the model, or of the result."""
        locations = {tensors.external_entries(t)["location"] for t in external}
        taken = {os.path.realpath(folder / name) for folder in (self.folder, self.output.parent) for name in locations}
        if os.path.realpath(self.output) in taken:
            raise UsageError(
                "the result would be written over the weights of the model",
                where=str(self.output),
                hint="give another name with --output",
                code="E10001",
            )

    def _require_space(self, weights: int) -> None:
        if weights > LIMIT:
            raise FusioncError(
                f"{weights:,} bytes of weights are more than one protobuf file can hold",
                where=str(self.output),
                hint="let the weights go to a file of their own: --external_weight 1",
                code="E13004",
            )

    def _move_in(self, external: list[TensorProto]) -> None:
        for tensor in external:
            path, offset, _ = tensors.external_range(tensor, os.fspath(self.folder))
            with open(path, "rb") as file:
                file.seek(offset)
                _make_inline(tensor, file.read(tensors.byte_size(tensor)))

    def _keep_files(self, external: list[TensorProto]) -> None:
        """Let the result use the original files: linked for the check in the same folder, else copied or repacked."""
        files: dict[str, list[TensorProto]] = {}
        for tensor in external:
            files.setdefault(tensors.external_entries(tensor)["location"], []).append(tensor)
        same_folder = os.path.realpath(self.folder) == os.path.realpath(self.output.parent)
        for location, members in files.items():
            source, target = self.folder / location, self.output.parent / location
            temporary = self.workshop / location
            temporary.parent.mkdir(parents=True, exist_ok=True)
            if same_folder:
                _link(source, temporary)
                continue
            used = sum(tensors.byte_size(t) for t in members)
            if used < source.stat().st_size // 2:  # rewriting has left most of the file behind
                self._pack(external, external)
                return
            if target.exists() and not _same_content(source, target):
                raise FusioncError(
                    "a file with the name of the model's external data is already there, and it is another one",
                    where=str(target),
                    hint="give another folder with --output, or --external_weight 1",
                    code="E13004",
                )
            shutil.copyfile(source, temporary)
            target.parent.mkdir(parents=True, exist_ok=True)
            self.moves.append((temporary, target))

    def _pack(self, chosen: list[TensorProto], external: list[TensorProto]) -> None:
        """Stream the chosen tensors, and every external one, into the data file of the result."""
        target = self.output.parent / self.data_name
        sources = {tensors.external_range(t, os.fspath(self.folder))[0] for t in external}
        if os.path.realpath(target) in sources:
            raise FusioncError(
                "the weights of the result would be written over those of the model",
                where=str(target),
                hint="give another name with --output",
                code="E13004",
            )
        temporary = self.workshop / self.data_name
        ordered = dict.fromkeys(map(id, chosen))
        everything = chosen + [t for t in external if id(t) not in ordered]
        if not everything:
            return
        with open(temporary, "wb") as file:
            for tensor in everything:
                self._append(tensor, file)
        self.moves.append((temporary, target))

    def _append(self, tensor: TensorProto, file: BinaryIO) -> None:
        if tensor.data_type == TensorProto.STRING:
            return
        size = tensors.byte_size(tensor)
        if size >= _PAGE:
            file.seek(-file.tell() % _PAGE, os.SEEK_CUR)
        offset = file.tell()
        if tensor.data_location == TensorProto.EXTERNAL:
            path, start, _ = tensors.external_range(tensor, os.fspath(self.folder))
            with open(path, "rb") as source:
                source.seek(start)
                for at in range(0, size, _CHUNK):
                    file.write(source.read(min(_CHUNK, size - at)))
        else:
            file.write(_raw_bytes(tensor))
        _make_external(tensor, self.data_name, offset, size)


def _initializers(graph: onnx.GraphProto) -> list[TensorProto]:
    return [t for t in graph.initializer if t.data_type != TensorProto.STRING]


def _raw_bytes(tensor: TensorProto) -> bytes:
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    return tensors.to_proto(tensors.to_array(tensor, ""), tensor.name).raw_data


def _clear_data(tensor: TensorProto) -> None:
    for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "external_data"):
        tensor.ClearField(field)
    tensor.ClearField("data_location")


def _make_inline(tensor: TensorProto, data: bytes) -> None:
    _clear_data(tensor)
    tensor.raw_data = data


def _make_external(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    _clear_data(tensor)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


def _link(source: Path, target: Path) -> None:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)


def _same_content(a: Path, b: Path) -> bool:
    if a.stat().st_size != b.stat().st_size:
        return False
    with open(a, "rb") as first, open(b, "rb") as second:
        while chunk := first.read(_CHUNK):
            if chunk != second.read(_CHUNK):
                return False
    return True
