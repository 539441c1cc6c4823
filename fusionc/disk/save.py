"""A ModelProto → files: written next to the target, and moved into place once they are known to be
right.

External weights stay external. In the model's own folder the result goes on using the original
file; elsewhere the file is copied, or repacked if rewriting has left parts of it unused. No weight
is read into memory to be written. `external_weight` 1 moves all weights of the graph into one file
of the result, 0 moves all into the model; without it, weights move out only if the model would pass
protobuf's limit. `publish` says how the files get to their places.
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

# bytes of weights in one protobuf file, with room for the rest (the limit is 2³¹ − 1)
LIMIT = 2_000_000_000
# bytes; smaller tensors stay in the model, where onnx needs them to infer shapes
WORTH_MOVING = 1024


@contextmanager
def save(
    proto: onnx.ModelProto, folder: Path, output: Path, external_weight: int | None = None
) -> Iterator[Saved]:
    """Write `proto`, whose external data lies in `folder`, for `output`, into a temporary folder
    next to it. The proto then says where the written weights are. The temporary folder is removed
    in any case. Raises FusioncError if the target cannot be written or the weights do not fit.
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
        self.set = workshop / "set"  # the files of the result as they will lie next to each other
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
        """Refuse an output that is a data file of the model or of the result."""
        locations = {external_entries(t)["location"] for t in external}
        taken = [
            folder / name for folder in (self.folder, self.output.parent) for name in locations
        ]
        require_unread(self.output, "--output", dict.fromkeys(taken, "the weights of the model"))

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
            make_inline(tensor, read_elements(tensor, os.fspath(self.folder)))

    def _keep_files(self, external: list[TensorProto]) -> None:
        """Let the result use the original files: as they are if they are in the same folder, else
        copied or repacked.
        """
        files: dict[str, list[TensorProto]] = {}
        for tensor in external:
            # raises if the file was cut since the model was read
            external_range(tensor, os.fspath(self.folder))
            files.setdefault(external_entries(tensor)["location"], []).append(tensor)
        if files and os.path.realpath(self.folder) == os.path.realpath(self.output.parent):
            self.model = self.output.with_name(
                companion_name(self.workshop)
            )  # onnx refuses links to data
            return
        for location, members in files.items():
            source = self.folder / location
            target = self.output.parent / location
            temporary = self.set / location
            temporary.parent.mkdir(parents=True, exist_ok=True)
            used = sum(tensors.byte_size(t) for t in members)
            if used < source.stat().st_size // 2:  # rewriting has left most of the file unused
                self.data.clear()
                self._pack(external, external)
                return
            if not os.path.realpath(target).startswith(
                os.path.realpath(self.output.parent) + os.sep
            ):
                raise obstacle_error(target)  # a link leads out of the folder
            shutil.copyfile(source, temporary)
            if os.path.lexists(target) and not is_copy(target, source):
                raise FusioncError(
                    (
                        "a file with the name of the model's external data is already there, and "
                        "it is another one"
                    ),
                    where=str(target),
                    hint="give another folder with --output, or --external_weight 1",
                    code="E13004",
                )
            self.data.append((temporary, target))

    def _pack(self, chosen: list[TensorProto], external: list[TensorProto]) -> None:
        """Write the chosen tensors, and every external one, into the data file of the result."""
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
        """Write the elements of a tensor; return their offset and size in the file."""
        size = tensors.byte_size(tensor)
        if size >= PAGE:
            file.align(PAGE)
        offset = file.size
        write_elements(tensor, os.fspath(self.folder), file)
        return offset, size


def _inline(everything: Iterable[TensorProto]) -> int:
    """The size of the elements that go into the model."""
    return sum(tensors.byte_size(tensor) for tensor in everything if not protos.is_external(tensor))


def _initializers(graph: onnx.GraphProto) -> list[TensorProto]:
    return [t for t in graph.initializer if t.data_type != TensorProto.STRING]
