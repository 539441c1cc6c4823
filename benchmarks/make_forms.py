"""Write the forms that real exporters give to what the passes look for: tests/forms/EXPORTER.txt.

    pip install torch==2.13.0 onnxscript==0.7.2       python benchmarks/make_forms.py torch
    pip install tensorflow-cpu==2.21.0 tf2onnx==1.17.0 python benchmarks/make_forms.py tensorflow

Each form is a small module, for which a pass is expected to fire. torch exports it by both of its
exporters, tf2onnx at one opset; each with fixed sizes and with an open first axis (the slow one of
torch writes fixed sizes of attention only). Weights of more than 16 elements are written without
their values. More arguments select files.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
from onnx import ModelProto, numpy_helper, printer

FOLDER = Path(__file__).parents[1] / "tests" / "forms"
MOST_ELEMENTS = 16  # of a weight that is written with its values
Export = Callable[[], ModelProto]


def text_of(model: ModelProto) -> str:
    """The model as onnx text, without names of nodes, documentation and large weights."""
    graph = model.graph
    del graph.value_info[:]
    graph.name = "form"
    for node in graph.node:
        node.name = node.doc_string = ""
        del node.metadata_props[:]
    large = [t for t in graph.initializer if numpy_helper.to_array(t).size > MOST_ELEMENTS]
    declared = []
    for tensor in large:
        kind = onnx.TensorProto.DataType.Name(tensor.data_type).lower()
        dims = ",".join(map(str, tensor.dims))
        declared.append(f'{kind}[{dims}] "{tensor.name}"')
        graph.initializer.remove(tensor)
    text = printer.to_text(graph)
    if not declared:
        return text
    head, brace, body = text.partition("{\n")
    before, less, constants = head.partition("\n   <")
    if not less:
        return f"{head.rstrip()}\n   <{', '.join(declared)}>\n{brace}{body}"
    return f"{before}{less}{', '.join(declared)}, {constants}{brace}{body}"


def write(name: str, versions: str, forms: Iterator[tuple[str, str, Export]]) -> None:
    """Write a file: for each form `== pass | name | opset`, and its graph."""
    FOLDER.mkdir(exist_ok=True)
    parts = [f"# {versions}; written by benchmarks/make_forms.py"]
    for pass_name, form, export in forms:
        try:
            model = export()
            opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
            parts.append(f"== {pass_name} | {form} | {opset}\n{text_of(model)}")
        except Exception as error:
            print(f"{name}: {form}: {type(error).__name__}: {str(error)[:150]}", file=sys.stderr)
        print(form, flush=True)
        (FOLDER / f"{name}.txt").write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    for exporter, versions, forms in importlib.import_module(f"forms.{sys.argv[1]}_forms").FILES:
        if exporter in sys.argv[2:] or not sys.argv[2:]:
            write(exporter, versions, forms())
