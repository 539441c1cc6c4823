"""--dump_graph: the graph after every pass that took effect, as a model and as text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import onnx
import onnx.printer

from fusionc.disk.paths import require_no_stream
from fusionc.errors import FusioncError, UsageError
from fusionc.protos import copied
from fusionc.report.model_info import drop_large_data

_NAME = re.compile(r"\d{4,}_\w+\.(onnx|txt)")


class GraphDump:
    """Writes <4 digits>_<pass>.onnx and .txt into a folder. An earlier dump in the folder is
    replaced; other files stay.

    External weights are not copied. `used` are the files of the model and of the result. Raises
    UsageError if the dump might overwrite one of them.
    """

    def __init__(self, folder: Path, used: Sequence[Path] = ()) -> None:
        for path in used:
            file = Path(os.path.realpath(path))
            if file.parent == Path(os.path.realpath(folder)) and _NAME.fullmatch(file.name):
                what = "a dump of the graph might overwrite this file"
                hint = "give another folder with --dump_graph"
                raise UsageError(what, where=str(path), hint=hint, code="E10001")
        self.folder = folder
        self._count = 0
        with self._explain_errors():
            folder.mkdir(parents=True, exist_ok=True)

    def write(self, proto: onnx.ModelProto, name: str) -> None:
        """Write the next two files, for the graph after the pass `name`. The text omits the data of
        large tensors. Raises FusioncError.
        """
        if self._count == 0:
            self._remove_former()
        path = self.folder / f"{self._count:04}_{name}"
        self._count += 1
        light = copied(proto)
        drop_large_data(light)
        with self._explain_errors():
            for ending in (".onnx", ".txt"):
                require_no_stream(path.with_suffix(ending))
            path.with_suffix(".onnx").write_bytes(proto.SerializeToString())
            path.with_suffix(".txt").write_text(str(onnx.printer.to_text(light)), encoding="utf-8")

    def _remove_former(self) -> None:
        """Remove an earlier dump: pairs of files that are numbered without a gap. The first pair is
        the input model.
        """
        for number in count():
            name = "*" if number else "input"
            with self._explain_errors():
                models = [
                    p
                    for p in self.folder.glob(f"{number:04}_{name}.onnx")
                    if _NAME.fullmatch(p.name)
                ]
                pairs = [
                    (p, p.with_suffix(".txt"))
                    for p in models
                    if p.is_file() and p.with_suffix(".txt").is_file()
                ]
                for file in (file for pair in pairs for file in pair):
                    file.unlink()
            if not pairs:
                return

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"the graph cannot be dumped: {error.strerror}"
            hint = "give a folder that can be written with --dump_graph"
            raise FusioncError(what, where=str(self.folder), hint=hint, code="E13004") from error
