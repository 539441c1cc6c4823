"""The graph after every pass that took effect, as models and as text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
import onnx.printer

from fusionc.errors import FusioncError
from fusionc.report.model_info import drop_large_data


class GraphDump:
    """Writes <4 digits>_<pass>.onnx and .txt into a folder. External weights stay where they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0
        with self._guarded():
            folder.mkdir(parents=True, exist_ok=True)

    def write(self, proto: onnx.ModelProto, name: str) -> None:
        path = self.folder / f"{self._count:04}_{name}"
        self._count += 1
        light = onnx.ModelProto()
        light.CopyFrom(proto)
        drop_large_data(light)
        with self._guarded():
            path.with_suffix(".onnx").write_bytes(proto.SerializeToString())
            path.with_suffix(".txt").write_text(str(onnx.printer.to_text(light)), encoding="utf-8")

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"the graph cannot be dumped: {error.strerror}"
            hint = "give a folder that can be written with --dump_graph"
            raise FusioncError(what, where=str(self.folder), hint=hint, code="E13004") from error
