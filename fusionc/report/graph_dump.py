"""The graph after every pass that took effect, as models and as text."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.printer

from fusionc.errors import FusioncError


class GraphDump:
    """Writes <4 digits>_<pass>.onnx and .txt into a folder. External weights stay where they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0
        self._guard(lambda: folder.mkdir(parents=True, exist_ok=True))

    def write(self, proto: onnx.ModelProto, name: str) -> None:
        path = self.folder / f"{self._count:04}_{name}"
        self._count += 1
        self._guard(lambda: path.with_suffix(".onnx").write_bytes(proto.SerializeToString()))
        self._guard(lambda: path.with_suffix(".txt").write_text(_text(proto), encoding="utf-8"))

    def _guard(self, write: object) -> None:
        try:
            write()  # type: ignore[operator]
        except OSError as error:
            what = f"the graph cannot be dumped: {error.strerror}"
            hint = "give a folder that can be written with --dump_graph"
            raise FusioncError(what, where=str(self.folder), hint=hint, code="E13004") from error


def _text(proto: onnx.ModelProto) -> str:
    """The model as onnx writes it, without its weights."""
    light = onnx.ModelProto()
    light.CopyFrom(proto)
    for tensor in light.graph.initializer:
        if tensor.ByteSize() > 1024:
            tensor.ClearField("raw_data")
    return str(onnx.printer.to_text(light))
