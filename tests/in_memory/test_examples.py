"""The examples of examples/: each is what a user of a stack has, with three lines that are new or
changed at most.

Each runs with the stack itself where that is installed, and always with a stand-in, which has only
what the example calls of it.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exported() -> onnx.ModelProto:
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17], metadata_props: ["stride": "32"]>'
        "g (float[n,2,4,4] x) => (float[n,2,4,4] y) {"
        " c = Conv<pads=[1,1,1,1]>(x, w)  b = BatchNormalization(c, s, s, s, s)  i = Identity(b) "
        " y = Relu(i) }"
    )
    arrays = {"w": np.ones((2, 2, 3, 3), np.float32) / 9, "s": np.ones(2, np.float32)}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()
    )
    return model


def operators(path: str | Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    """A module, and those around it."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        module = ModuleType(".".join(parts[:end]))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        if end > 1:
            setattr(sys.modules[".".join(parts[: end - 1])], parts[end - 1], module)
    vars(module).update(members)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_three_lines_are_new_or_changed_at_most(path: Path) -> None:
    lines = [
        line
        for line in path.read_text().splitlines()
        if re.search("fusionc", line.partition('"""')[0])
    ]
    marked = [line for line in path.read_text().splitlines() if re.search("# (new|changed)", line)]
    assert 2 <= len(marked) <= 3 and set(lines) <= set(marked)


def test_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    class ONNXProgram(SimpleNamespace):
        def save(self, path: str) -> None:
            onnx.save(self.model.proto, path)

    ONNXProgram.__module__ = "torch.onnx"
    ir = ModuleType("onnx_ir")
    model_class = type("Model", (SimpleNamespace,), {"__module__": "onnx_ir"})
    ir.to_proto = lambda model: model.proto
    graph = type("Graph", (list,), {"initializers": {}})()  # of nodes
    ir.from_proto = lambda proto: model_class(proto=proto, graph=graph, functions={})
    monkeypatch.setitem(sys.modules, "onnx_ir", ir)
    stand_in(
        monkeypatch,
        "torch.onnx",
        export=lambda *_, **__: ONNXProgram(model=ir.from_proto(exported()), model_proto=None),
    )
    sys.modules["torch"].nn = SimpleNamespace(Module=object)
    sys.modules["torch"].Tensor = object
    example("torch_onnx").export(SimpleNamespace(eval=lambda: None), None, "m.onnx")
    assert operators("m.onnx") == ["FusedConv"]


def test_the_real_torch() -> None:
    torch = pytest.importorskip(
        "torch", reason="torch is not installed: pip install torch onnxscript"
    )
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install onnxscript")
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
    example("torch_onnx").export(layers, torch.randn(1, 3, 16, 16), "m.onnx")
    assert operators("m.onnx") == ["FusedConv"]


def test_ultralytics(monkeypatch: pytest.MonkeyPatch) -> None:
    def export(**given: Any) -> str:
        assert given == {"format": "onnx", "simplify": False}
        onnx.save(exported(), "yolo.onnx")
        return "yolo.onnx"

    stand_in(monkeypatch, "ultralytics", YOLO=lambda _: SimpleNamespace(export=export))
    assert operators(example("ultralytics_yolo").export("yolo11n.yaml")) == ["Conv", "Relu"]
    assert onnx.load("yolo.onnx").metadata_props == exported().metadata_props


def test_the_real_ultralytics() -> None:
    pytest.importorskip(
        "ultralytics", reason="ultralytics is not installed: pip install ultralytics"
    )
    found = onnx.load(example("ultralytics_yolo").export("yolo11n.yaml"))
    assert {entry.key for entry in found.metadata_props} >= {"stride", "names", "imgsz"}
    assert {node.domain for node in found.graph.node} == {""}


def test_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    def main_export(name: str, output: Path, task: str) -> None:
        assert (name, task) == ("bert", "feature-extraction")
        onnx.save(exported(), output / "model.onnx")

    stand_in(monkeypatch, "optimum.exporters.onnx", main_export=main_export)
    assert operators(example("optimum_export").export("bert", Path(), "feature-extraction")) == [
        "FusedConv"
    ]


def test_the_real_optimum() -> None:
    pytest.importorskip(
        "optimum.exporters.onnx", reason="optimum is not installed: pip install optimum-onnx"
    )
    transformers = pytest.importorskip("transformers")
    Path("vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"])
    )
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    transformers.BertModel(transformers.BertConfig(vocab_size=7, **sizes)).save_pretrained("bert")
    transformers.BertTokenizerFast("vocab.txt").save_pretrained("bert")
    path = example("optimum_export").export("bert", Path("out"), "feature-extraction")
    assert "MultiHeadAttention" in operators(path)


def test_olive(monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(exported(), "out.onnx")
    best = SimpleNamespace(model_path="out.onnx")
    stand_in(monkeypatch, "olive", run=lambda _: SimpleNamespace(get_best_candidate=lambda: best))
    assert operators(example("olive_workflow").optimized({})) == ["FusedConv"]


def test_the_real_olive() -> None:
    pytest.importorskip("olive", reason="olive is not installed: pip install olive-ai")
    onnx.save(exported(), "in.onnx")
    workflow = {
        "input_model": {"type": "ONNXModel", "model_path": "in.onnx"},
        "passes": {"peephole": {"type": "OnnxPeepholeOptimizer"}},
        "output_dir": "out",
    }
    assert operators(example("olive_workflow").optimized(workflow)) == ["FusedConv"]
