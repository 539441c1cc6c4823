"""--keep_dtype: nodes by name and by type, and what is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import parse

from fusionc.errors import UsageError
from fusionc.model.graph import Model
from fusionc.requested.kept_types import KeptTypes, list_for_many_models
from fusionc.shapes.inference import typed_model

MODEL = """agraph (float[N,4] x) => (float[N,4] y) { a = Relu (x) b = Neg (a) y = Relu (b) }"""


@pytest.fixture
def model() -> Model:
    proto = parse(MODEL)
    for node, name in zip(proto.graph.node, ("first", "second", ""), strict=True):
        node.name = name
    return typed_model(proto, "", "onnxruntime-cpu")


def kept_labels(text: str, model: Model, folder: Path) -> list[str]:
    file = folder / "keep.txt"
    file.write_text(text)
    kept = KeptTypes.in_file(file)
    kept.find(model.proto)
    return [node.label() for node in model.main.nodes if kept.keeps(node)]


def test_names_and_types(model: Model, tmp_path: Path) -> None:
    assert kept_labels("second\n", model, tmp_path) == ["second"]
    assert kept_labels("\n OpType::Relu \n", model, tmp_path) == ["first", "Relu:y"]
    assert kept_labels("OpType::Neg\nfirst", model, tmp_path) == ["first", "second"]
    assert kept_labels("", model, tmp_path) == []


def test_what_is_made_of_them(model: Model, tmp_path: Path) -> None:
    """A node that a pass made of some says so."""
    node = next(iter(model.main.nodes))
    node.proto.metadata_props.add(key="fusionc.pass", value="APass")
    node.proto.metadata_props.add(key="fusionc.from", value="old,other")
    assert kept_labels("other", model, tmp_path) == ["first"]


def test_the_name_that_keeps_a_product() -> None:
    """It is that of the product in the model, not of what a pass made of it."""
    proto = parse("""agraph (float[1,4,8,8] x, float[4,4,1,1] w) => (float[1,4,8,8] y)
        { p = Identity (x) c = Conv (p, w) y = Relu (c) }""")
    kept = KeptTypes()
    kept.find(proto)
    made = next(iter(typed_model(proto, "", "onnxruntime-cpu").main.nodes))
    assert kept.name_of(made) == "Identity:p"
    made.proto.metadata_props.add(key="fusionc.pass", value="APass")
    made.proto.metadata_props.add(key="fusionc.from", value="gone,Relu:y,Conv:c")
    assert kept.name_of(made) == "Conv:c"
    assert kept.with_names(["Conv:c"]).keeps(made) and not kept.keeps(made)


def test_nodes_of_subgraphs_are_there() -> None:
    proto = parse("""agraph (bool c, float[4] x) => (float[4] y) {
        y = If (c) <then_branch = t () => (float[4] a) { a = Relu (x) },
                    else_branch = e () => (float[4] b) { b = Neg (x) }> }""")
    assert KeptTypes(frozenset({"Relu:a"}), frozenset({"Neg"})).find(proto) == []


def test_what_is_not_there(model: Model) -> None:
    kept = KeptTypes(frozenset({"first", "firsst"}), frozenset({"Conv"}))
    with list_for_many_models():
        (notice,) = kept.find(model.proto)
    assert notice == "--keep_dtype: the model does not have firsst, OpType::Conv"
    with pytest.raises(UsageError, match="no node of the model has the name firsst") as error:
        kept.find(model.proto)
    assert (error.value.code, error.value.where) == ("E10016", "--keep_dtype")
    assert error.value.hint == 'did you mean "first"?'
    (notice,) = KeptTypes(frozenset({"first"}), frozenset({"Conv"})).find(model.proto)
    assert notice == "--keep_dtype: the model does not have OpType::Conv"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the file of --keep_dtype does not exist") as error:
        KeptTypes.in_file(tmp_path / "none.txt")
    assert (error.value.code, error.value.where) == ("E10410", str(tmp_path / "none.txt"))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the file of --keep_dtype is a folder") as error:
        KeptTypes.in_file(tmp_path)
    assert error.value.code == "E10410"


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "keep.txt"
    file.write_bytes(b"conv\xff\n")
    with pytest.raises(UsageError, match="is not text in UTF-8") as error:
        KeptTypes.in_file(file)
    assert error.value.code == "E10001"
