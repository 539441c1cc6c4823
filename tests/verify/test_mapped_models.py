"""Models whose large weights are mapped: verified as others are, one session at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from fusionc.disk.onnx_checker import require_as_valid
from fusionc.errors import VerificationError
from fusionc.runtime import runner
from fusionc.verify import model_file, verify
from fusionc.verify.first_sample import first_sample

WEIGHT = np.random.default_rng(0).standard_normal((200, 200)).astype(np.float32)


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_file, "_WORTH_MAPPING", 0)


def written(path: Path, weight: np.ndarray, noise: bool = False) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "w"], ["y"]),
    ]
    if noise:
        nodes += [
            helper.make_node("RandomNormalLike", ["w"], ["r"]),
            helper.make_node("Add", ["y", "r"], ["z"]),
        ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [200, 200])],
        [helper.make_tensor_value_info("z" if noise else "y", TensorProto.FLOAT, [200, 200])],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path
    )
    return path


@pytest.mark.parametrize("noise", [False, True])
def test_the_same_weights_are_equal_and_one_other_is_seen(noise: bool, tmp_path: Path) -> None:
    reference = written(tmp_path / "reference.onnx", WEIGHT, noise)
    assert verify(reference, written(tmp_path / "same.onnx", WEIGHT, noise)).status == "equal"
    other = WEIGHT.copy()
    other[-1, -1] += 5
    found = verify(reference, written(tmp_path / "other.onnx", other, noise))
    assert found.status == "different" and found.is_loadable
    assert sorted(os.listdir(tmp_path)) == ["other.onnx", "reference.onnx", "same.onnx"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    """As in a cache of downloads."""
    (tmp_path / "there").mkdir()
    link = tmp_path / "model.onnx"
    link.symlink_to(written(tmp_path / "there" / "blob", WEIGHT))
    assert verify(link, written(tmp_path / "same.onnx", WEIGHT)).status == "equal"
    assert verify(link, written(tmp_path / "other.onnx", -WEIGHT)).status == "different"


def test_weights_behind_a_link_may_be_overridden(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name, weight in (("blob", WEIGHT), ("same", WEIGHT), ("other", -WEIGHT)):
        model = onnx.load(written(tmp_path / "there" / name, weight))
        model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [200, 200]))
        onnx.save(model, tmp_path / "there" / name)
    link = tmp_path / "model.onnx"
    link.symlink_to(tmp_path / "there" / "blob")
    assert verify(link, tmp_path / "there" / "same").status == "equal"
    assert verify(link, tmp_path / "there" / "other").status == "different"
    assert first_sample(link, None, None).feeds.keys() == {"x"}


def test_data_beside_a_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    proto = onnx.load(written(tmp_path / "there" / "blob", WEIGHT))
    onnx.save(
        proto,
        tmp_path / "external.onnx",
        save_as_external_data=True,
        location="weights",
        size_threshold=0,
    )
    (tmp_path / "external.onnx").replace(tmp_path / "there" / "blob")
    link = tmp_path / "model.onnx"
    link.symlink_to(tmp_path / "there" / "blob")
    assert verify(link, written(tmp_path / "same.onnx", WEIGHT)).status == "equal"


def test_one_session_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = set[int]()
    most = list[int]()
    ask = runner.request

    def counting(name: str, *arguments: Any, **options: Any) -> Any:
        if name in ("open", "close"):
            change: Callable[[int], None] = opened.add if name == "open" else opened.discard
            change(arguments[0])
            most.append(len(opened))
        return ask(name, *arguments, **options)

    monkeypatch.setattr(runner, "request", counting)
    paths = [written(tmp_path / name, WEIGHT) for name in ("reference.onnx", "candidate.onnx")]
    assert verify(*paths, levels=("all",)).status == "equal"
    assert max(most) == 1 and not opened


def test_what_is_not_valid_is_found_without_its_weights(tmp_path: Path) -> None:
    good, bad = (written(tmp_path / name, WEIGHT) for name in ("good.onnx", "bad.onnx"))
    proto = ModelProto.FromString(bad.read_bytes())
    proto.graph.node[1].input[0] = "nobody"
    bad.write_bytes(proto.SerializeToString())
    require_as_valid(good, good)
    with pytest.raises(VerificationError, match=r"not a valid ONNX model: .*nobody"):
        require_as_valid(bad, good)
    assert sorted(os.listdir(tmp_path)) == ["bad.onnx", "good.onnx"]
