"""What a ready form holds: weights at page boundaries, and what kernels have made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

import onnx

from fusionc.disk.external_data import external_entries


def test_weights_and_what_kernels_made_of_them_begin_where_they_can_be_mapped(
    converted: Path,
) -> None:
    (form,) = converted.glob("out.*.ready.onnx")
    proto = onnx.load(form, load_external_data=False)
    entries = {
        tuple(t.dims): external_entries(t) for t in proto.graph.initializer if t.data_location
    }
    assert (1027,) in entries and (1024, 40) in entries
    places = [(int(e["offset"]), int(e["length"])) for e in entries.values()]
    places.append(place_of_packed(entries.values()))
    for offset, length in places:
        assert offset % (4096 if length >= 4096 else 64) == 0
    ends = sorted((offset, offset + length) for offset, length in places)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))
    (name,) = {e["location"] for e in entries.values()}
    assert (converted / name).stat().st_size == ends[-1][1]


def place_of_packed(entries: Iterable[Mapping[str, str]]) -> tuple[int, int]:
    """Offset and length of the only weights that a kernel packed, those of a Gemm."""
    texts = [e[key] for e in entries for key in e if key.startswith("prepacked_")]
    ((name, place),) = [text.split("|") for text in texts]
    assert name.split("+")[0] == "Gemm"
    offset, length = map(int, place.split(";")[:2])
    return offset, length


def test_the_graph_is_the_one_that_onnxruntime_runs(converted: Path) -> None:
    (form,) = converted.glob("out.*.ready.onnx")
    proto = onnx.load(form, load_external_data=False)
    domains = {node.domain for node in proto.graph.node}
    assert (
        "com.microsoft.nchwc" in domains
        and {entry.domain for entry in proto.opset_import} == domains
    )
    assert not (converted / "optimized.data").exists() and len(list(converted.glob("out.*"))) == 4
