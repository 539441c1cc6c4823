"""Save a ModelProto to temporary files next to the output. After the files have been checked,
`publish` moves them to their final paths.

By default (`external_weight` is None), external weights stay external. If the output is in the
model's own folder, the result uses the original data file. Otherwise, the data file is copied; if
most of it is no longer used, the used weights are packed into a new one. Weights inside the model
move to a data file only if the model would exceed protobuf's limit. `external_weight=1` moves all
weights of the graph to one data file, and `external_weight=0` moves all weights into the model.
Large weights are never all in memory at once, except with `external_weight=0`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from onnx import TensorProto

from fusionc import protos
from fusionc.disk.external_data import external_entries, external_range
from fusionc.disk.hashed_file import PAGE, HashedFile
from fusionc.disk.mapped_weights import write_mapped
from fusionc.disk.paths import require_unread
from fusionc.disk.places import cannot_be_written, companion_name, workshop
from fusionc.disk.publish import Saved, data_of, is_copy, obstacle_error, short
from fusionc.disk.tensor_data import make_external, make_inline, read_elements, write_elements
from fusionc.errors import FusioncError
from fusionc.model import tensors

# bytes of weights that are written into one protobuf file; the limit for a whole model is 2³¹ − 1
LIMIT = 2_000_000_000
# bytes; smaller tensors stay in the model, because shape inference needs them there
WORTH_MOVING = 1024


@contextmanager
def save(
    proto: onnx.ModelProto, folder: Path, output: Path, external_weight: int | None = None
) -> Iterator[Saved]:
    """A context manager that writes `proto` to temporary files next to `output`. The proto's
    external data is in `folder`. The proto is changed: afterwards it refers to the written weights.
    The temporary folder is removed at the end of the context. Raises FusioncError if the files
    cannot be written, or if the weights do not fit into the model.
    """
    with workshop(output.parent) as temporary:
        try:
            saved = _Writer(proto, folder, output, temporary).write(external_weight)
        except OSError as error:
            raise cannot_be_written(error, output) from error
        yield saved


class _Writer:
    def __init__(self, proto: onnx.ModelProto, folder: Path, output: Path, workshop: Path) -> None:
        self.proto = proto
        self.folder = folder
        self.output = output
        self.workshop = workshop
        self.set = workshop / "set"  # the folder with the model and its data files
        self.model = self.set / output.name
        self.data: list[tuple[Path, Path]] = []

    def write(self, external_weight: int | None) -> Saved:
        everything = list(protos.tensors_of(self.proto))
        external = list(filter(protos.is_external, everything))
        self._spare_weights(external)
        self.set.mkdir()
        movable = [
            t for t in _initializers(self.proto.graph) if tensors.byte_size(t) >= WORTH_MOVING
        ]
        inline = _inline(everything)
        if external_weight == 0:
            self._require_space(inline + sum(map(tensors.byte_size, external)))
            self._move_in(external)
        elif external_weight == 1 or inline > LIMIT:
            self._pack(movable, external)
        else:
            self._keep_files(external)
        self._require_space(_inline(everything))
        write_mapped(self.proto, self.folder, self.model)
        return Saved(self.model, self.output, tuple(self.data), self.workshop)

    def _spare_weights(self, external: list[TensorProto]) -> None:
        """Raise UsageError if the output has the path of a data file of the model or of the
        result.
        """
        locations = {external_entries(t)["location"] for t in external}
        files = [
            folder / name for folder in (self.folder, self.output.parent) for name in locations
        ]
        require_unread(self.output, "--output", dict.fromkeys(files, "the weights of the model"))

    def _require_space(self, weights: int) -> None:
        if weights > LIMIT:
            raise FusioncError(
                f"{weights:,} bytes of weights are too large for one protobuf file",
                where=str(self.output),
                hint="write the weights to a separate file: --external_weight 1",
                code="E13004",
            )

    def _move_in(self, external: list[TensorProto]) -> None:
        for tensor in external:
            make_inline(tensor, read_elements(tensor, os.fspath(self.folder)))

    def _keep_files(self, external: list[TensorProto]) -> None:
        """Keep the original data files if they are in the output's folder. Otherwise copy them, or
        pack their used parts into one file.
        """
        files: dict[str, list[TensorProto]] = {}
        for tensor in external:
            # Called only for its errors: the file may have been truncated since the model was read.
            external_range(tensor, os.fspath(self.folder))
            files.setdefault(external_entries(tensor)["location"], []).append(tensor)
        if files and os.path.realpath(self.folder) == os.path.realpath(self.output.parent):
            # The model must be next to its data files, because onnx refuses links to them.
            self.model = self.output.with_name(companion_name(self.workshop))
            return
        for location, members in files.items():
            source = self.folder / location
            target = self.output.parent / location
            temporary = self.set / location
            temporary.parent.mkdir(parents=True, exist_ok=True)
            used = sum(tensors.byte_size(t) for t in members)
            if used < source.stat().st_size // 2:  # most of the file is no longer used
                self.data.clear()
                self._pack(external, external)
                return
            if not os.path.realpath(target).startswith(
                os.path.realpath(self.output.parent) + os.sep
            ):
                raise obstacle_error(target)  # because of a symbolic link, it is outside the folder
            shutil.copyfile(source, temporary)
            if os.path.lexists(target) and not is_copy(target, source):
                raise FusioncError(
                    (
                        "the folder of the output has another file with the name of the model's "
                        "external data"
                    ),
                    where=str(target),
                    hint="give another folder with --output, or --external_weight 1",
                    code="E13004",
                )
            self.data.append((temporary, target))

    def _pack(self, chosen: list[TensorProto], external: list[TensorProto]) -> None:
        """Write the chosen tensors, and all external tensors, to one data file."""
        ordered = dict.fromkeys(map(id, chosen))
        everything = chosen + [t for t in external if id(t) not in ordered]
        if not everything:
            return
        places: list[tuple[TensorProto, int, int]] = []
        temporary = self.workshop / "packed"
        with open(temporary, "wb") as file:
            hashed = HashedFile(file)
            for tensor in everything:
                if tensor.data_type != TensorProto.STRING:
                    places.append((tensor, *self._append(tensor, hashed)))
        target = data_of(self.output, short(hashed.hash.hexdigest()))
        for tensor, offset, size in places:
            make_external(tensor, target.name, offset, size)
        temporary = temporary.replace(self.set / target.name)
        if os.path.lexists(target) and not is_copy(target, temporary):
            raise obstacle_error(target)
        self.data.append((temporary, target))

    def _append(self, tensor: TensorProto, file: HashedFile) -> tuple[int, int]:
        """Append the elements of a tensor. Return their offset and size in the file."""
        size = tensors.byte_size(tensor)
        if size >= PAGE:
            file.align(PAGE)
        offset = file.size
        write_elements(tensor, os.fspath(self.folder), file)
        return offset, size


def _inline(everything: Iterable[TensorProto]) -> int:
    """The total size in bytes of the tensors that are not external."""
    return sum(tensors.byte_size(tensor) for tensor in everything if not protos.is_external(tensor))


def _initializers(graph: onnx.GraphProto) -> list[TensorProto]:
    return [t for t in graph.initializer if t.data_type != TensorProto.STRING]
