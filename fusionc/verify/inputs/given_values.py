"""The values of inputs in the caller's files: --inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from fusionc.errors import UsageError, advice, said
from fusionc.model.tensors import numpy_type, type_name
from fusionc.runtime.memory import available
from fusionc.verify.interface import Port, declared_outputs, overridable_inputs, required_inputs

_HINT = (
    "a sample is an .npz file, a folder with an .npy file for each input, or one with "
    "input_0.pb, input_1.pb, …; "
    "several samples are a folder of these"
)
_NUMBERED = re.compile(r"(input|output)_(\d+)\.pb")


@dataclass
class GivenSample:
    """One sample from files: the values of inputs, and recorded values of outputs if there are any,
    by name.
    """

    label: str
    feeds: dict[str, Any] = field(default_factory=dict)
    recorded: dict[str, Any] = field(default_factory=dict)


class GivenValues:
    """The samples at a path. `places` are their files and folders, in order. A sample is read only
    when it is needed.

    Raises UsageError if the path has no samples.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise _wrong(
                "the inputs do not exist",
                path,
                "give a file or a folder that exists",
                code="E10410",
            )
        self._root = path.parent if not path.is_dir() or _is_sample(path) else path
        self.places = list(_places(path))
        if not self.places:
            raise _wrong("there are no inputs", path, _HINT)

    def reader(self, model: onnx.ModelProto) -> Callable[[], Iterator[GivenSample]]:
        """A function that reads the samples in order, with values as onnxruntime expects them. The
        function does not keep the model in memory.

        The function raises UsageError if a file is damaged, or does not fit the model's inputs.
        """
        ports = required_inputs(model), overridable_inputs(model), declared_outputs(model)
        return lambda: (self._sample(place, *ports) for place in self.places)

    def _sample(
        self, place: Path, required: Sequence[Port], others: Sequence[Port], outputs: Sequence[Port]
    ) -> GivenSample:
        sample = GivenSample(str(place.relative_to(self._root)))
        inputs = {port.name: port for port in (*required, *others)}
        for name, read, file in _values(place, required, outputs):
            if name in sample.feeds or name in sample.recorded:
                raise _wrong(f"{name} is given twice", file, "give each input once")
            if name in inputs:
                sample.feeds[name] = _fitting(read(), inputs[name], file)
            elif any(name == port.name for port in outputs):
                sample.recorded[name] = read()
            else:
                names = "an .npy file, and each array in an .npz file, has the name of an input"
                named = f"it takes: {_list(required)}; {names}"
                raise _wrong(f"the model has no input {name}", file, advice(name, inputs, named))
        missing = [port for port in required if port.name not in sample.feeds and not port.optional]
        if missing:
            what = f"a value for the input {missing[0].name} is missing"
            raise _wrong(what, place, f"the model takes: {_list(required)}; give all of them")
        return sample


def _places(path: Path) -> Iterator[Path]:
    """The samples at a path: the path itself, or the samples in it. test_data_set_2 comes before
    test_data_set_10.
    """
    if not path.is_dir() or _is_sample(path):
        yield path
    else:
        yield from (
            p for p in sorted(path.iterdir(), key=_in_order) if p.suffix == ".npz" or _is_sample(p)
        )


def _is_sample(path: Path) -> bool:
    return path.is_dir() and any(
        file.suffix == ".npy" or _NUMBERED.fullmatch(file.name) for file in path.iterdir()
    )


def _in_order(path: Path) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)
    ]


def _values(
    place: Path, inputs: Sequence[Port], outputs: Sequence[Port]
) -> Iterator[tuple[str, Callable[[], Any], Path]]:
    """The values of a sample, each with its name, its reader, and its file."""
    if place.suffix == ".npz" and place.is_file():
        with _read(place, _archive) as archive:
            for name in archive.files:
                yield name, partial(_read, place, partial(_member, archive, name)), place
        return
    for file in [place] if not place.is_dir() else sorted(place.iterdir(), key=_in_order):
        numbered = _NUMBERED.fullmatch(file.name)
        if numbered is not None:
            ports = inputs if numbered[1] == "input" else outputs
            yield _numbered_value(file, numbered, ports)
        elif file.suffix == ".npy":
            yield file.stem, partial(_read, file, _array), file
        elif place == file:
            raise _wrong("this is not a file with inputs", file, _HINT)


def _numbered_value(
    file: Path, numbered: re.Match[str], ports: Sequence[Port]
) -> tuple[str, Callable[[], Any], Path]:
    """The value in a file of a test set. The file's name has the number of the input or output."""
    number = int(numbered[2])
    if number >= len(ports):
        what = f"the model has {len(ports)} {numbered[1]}s"
        raise _wrong(what, file, "they are numbered from 0")
    port = ports[number]
    reader = _sequence_value if port.kind == "sequence" else _tensor_value
    name, value = _read(file, _optional_value if port.optional else reader)
    # Values in test sets may lack names.
    is_known = any(name == other.name for other in ports)
    return name if is_known else port.name, partial(_itself, value), file


def _read(file: Path, reader: Callable[[Path], Any]) -> Any:
    if file.exists() and not file.is_file():  # reading a pipe would block
        raise _wrong("this is not a file with inputs", file, _HINT)
    try:
        return reader(file)
    except Exception as error:  # errors of zip files, numpy, protobuf, onnx and the file system
        if isinstance(error, ValueError) and "allow_pickle" in str(error):
            why = "it is not a file of numpy, or it has Python objects, which may run code"
            what = f"the file cannot be read: {why}"
            raise _wrong(what, file, "write it again, and text as array.astype(str)") from error
        raise _wrong(f"the file cannot be read: {said(error)}", file, "write it again") from error


def _archive(file: Path) -> Any:
    return np.lib.npyio.NpzFile(file.open("rb"), own_fid=True)


def _member(archive: Any, name: str, file: Path) -> Any:
    """An array of an archive. Even a small archive may contain an array that is larger than the
    memory.
    """
    size = sum(
        info.file_size for info in archive.zip.infolist() if info.filename in (name, f"{name}.npy")
    )
    most = available()
    if most is not None and size > most:
        raise MemoryError(f"{name} takes {size:,} bytes, and only {most:,} are available")
    return archive[name]


def _array(file: Path) -> Any:
    return np.load(file, allow_pickle=False)


def _itself(value: Any) -> Any:
    return value


def _tensor_value(file: Path) -> tuple[str, Any]:
    tensor = onnx.TensorProto.FromString(file.read_bytes())
    return tensor.name, onnx.numpy_helper.to_array(tensor, str(file.parent))


def _sequence_value(file: Path) -> tuple[str, Any]:
    sequence = onnx.SequenceProto.FromString(file.read_bytes())
    return sequence.name, onnx.numpy_helper.to_list(sequence)


def _optional_value(file: Path) -> tuple[str, Any]:
    optional = onnx.OptionalProto.FromString(file.read_bytes())
    return optional.name, onnx.numpy_helper.to_optional(optional)


def _fitting(value: Any, port: Port, file: Path) -> Any:
    """The value in the form that onnxruntime expects. Raises UsageError if it does not fit this
    input.
    """
    if isinstance(value, list) and port.kind == "sequence":
        return [_fitting_array(np.asarray(item), port, file) for item in value]
    if isinstance(value, np.ndarray) and port.kind == "tensor":
        return _fitting_array(value, port, file)
    if value is None and port.optional:
        return value
    raise _wrong(
        f"the input {port.name} is a {port.kind}, which this file does not contain", file, _HINT
    )


def _fitting_array(value: NDArray[Any], port: Port, file: Path) -> NDArray[Any]:
    wanted = numpy_type(port.element_type) or value.dtype  # without a type, any type is accepted
    if value.dtype.kind == "V" and value.dtype.itemsize == wanted.itemsize:
        value = value.view(wanted)  # numpy's files cannot express bfloat16 and similar types
    if value.dtype.kind in "US" and wanted.kind == "O":
        value = value.astype(np.str_).astype(object)
    value = value.astype(value.dtype.newbyteorder("="), copy=False)
    if value.dtype != wanted:
        named = type_name(port.element_type) if wanted.kind == "O" else wanted.name
        what = f"the input {port.name} has type {named}, and the file has {value.dtype.name}"
        raise _wrong(what, file, f'convert the array: array.astype("{wanted.name}")')
    if port.kind == "tensor" and not port.takes(value.shape):
        what = f"the input {port.name} has the shape {list(value.shape)}, which does not fit"
        raise _wrong(what, file, f"the model takes {_declared(port)}")
    return value


def _list(ports: Sequence[Port]) -> str:
    return ", ".join(map(_declared, ports)) or "no inputs"


def _declared(port: Port) -> str:
    dims = (
        ""
        if port.dims is None
        else f"[{', '.join('?' if '[' in str(dim) else str(dim) for dim in port.dims)}]"
    )
    return f"{port.name} {type_name(port.element_type)}{dims}"


def _wrong(what: str, where: Path, hint: str, code: str = "E10001") -> UsageError:
    return UsageError(what, where=str(where), hint=hint, code=code)
