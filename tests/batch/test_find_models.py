"""Which models --model names, and where their results go."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusionc.batch import find_models
from fusionc.batch.find_models import asks_for_many
from fusionc.errors import FusioncError, UsageError

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


def make(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)


def found(*given: str, output: str = "out") -> dict[str, str]:
    models = find_models.find_models(list(map(Path, given)), Path(output))
    return {model.name: str(model.source) for model in models}


def test_one_file_is_not_many() -> None:
    make("a.onnx", "odd[1].onnx", "models/b.onnx")
    for name in ("a.onnx", "none.onnx", "odd[1].onnx", "\x1b[31m", "m" * 5000):
        assert not asks_for_many([Path(name)])
    assert all(
        asks_for_many([Path(name)])
        for name in ("models", "*.onnx", "models/[ab].onnx", "none-?.onnx")
    )
    assert asks_for_many([Path("a.onnx"), Path("b.onnx")])


def test_a_folder_keeps_its_structure() -> None:
    make(
        "models/b.onnx",
        "models/vision/deep/A.ONNX",
        "models/b.data",
        "models/.git/c.onnx",
        "models/.d.onnx",
    )
    make("models/b.0123456789abcdef.ready.onnx")
    names = {"b.onnx": "models/b.onnx", "vision/deep/A.ONNX": "models/vision/deep/A.ONNX"}
    assert found("models") == found("models/", "models") == names


def test_what_conversions_have_written_is_no_model() -> None:
    make("zoo/a.onnx", "zoo/out/a.onnx", "zoo/dumps/a.onnx/0001_pass.onnx")
    models = find_models.find_models([Path("zoo")], Path("zoo/out"), Path("zoo/dumps"))
    assert [model.name for model in models] == ["a.onnx"]


def test_a_pattern_keeps_what_is_behind_its_first_wildcard() -> None:
    make("zoo/v1/a/m.onnx", "zoo/v1/b/m.onnx", "zoo/v1/b/weights", "zoo/v2/c/m.onnx")
    assert set(found("zoo/v1/*/m.onnx")) == set(found("zoo/v1/*")) == {"a/m.onnx", "b/m.onnx"}
    assert (
        set(found("zoo/**/m.onnx"))
        == set(found("zoo/**"))
        == {"v1/a/m.onnx", "v1/b/m.onnx", "v2/c/m.onnx"}
    )


def test_files_one_by_one() -> None:
    make("x/a.onnx", "y/b.pb")
    assert found("x/a.onnx", "y/b.pb", "x/a.onnx", "none.onnx") == {
        "a.onnx": "x/a.onnx",
        "b.pb.onnx": "y/b.pb",
        "none.onnx": "none.onnx",
    }


def test_links_are_followed_but_not_in_a_circle() -> None:
    make("elsewhere/a.onnx", "models/sub/b.onnx")
    Path("models/link").symlink_to(Path("elsewhere").absolute())
    Path("models/sub/up").symlink_to(Path("models").absolute())
    Path("models/gone.onnx").symlink_to("nowhere")
    assert set(found("models")) == {"gone.onnx", "link/a.onnx", "sub/b.onnx"}


def test_results_that_links_bring_to_one_place() -> None:
    make("models/a/m.onnx", "models/b/m.onnx", "out/a/other")
    Path("out/b").symlink_to("a")
    with pytest.raises(UsageError, match=r"two models would be written to .*/out/a/m\.onnx"):
        found("models")


@pytest.mark.parametrize("given", ["models", "models/**"])
def test_results_in_the_folder_of_the_models_are_no_models(given: str) -> None:
    make("models/a.onnx", "models/sub/out/a.onnx", "models/sub/out/sub/b.onnx", "models/sub/b.onnx")
    assert set(found(given, output="models/sub/out")) == {"a.onnx", "sub/b.onnx"}


def test_models_in_the_folder_of_the_results_are_models() -> None:
    make("out/models/a.onnx")
    assert found("out/models") == {"a.onnx": "out/models/a.onnx"}


@pytest.mark.parametrize(
    ("given", "output", "problem", "where"),
    [
        (["empty"], "out", "E10410: there is no ONNX model in the folder", "empty"),
        (["models", "empty"], "out", "E10410: there is no ONNX model in the folder", "empty"),
        (["none/*.onnx"], "out", "E10410: no ONNX model matches the pattern", "none/*.onnx"),
        (
            ["models"],
            "models",
            "E10001: a result would be written over a model; models are",
            "models/a.onnx",
        ),
        (
            ["models/models"],
            "models",
            "E10001: a result would be written over a model",
            "models/models/a.onnx",
        ),
        (
            ["models"],
            "models/a.onnx",
            "E10001: the results of many models go into a folder",
            "models/a.onnx",
        ),
        (
            ["models"],
            "new.onnx",
            "E10001: the results of many models go into a folder, but this is the name",
            "new.onnx",
        ),
        (
            ["models", "other/a.onnx"],
            "out",
            "E10001: two models would be written to a.onnx",
            "models/a.onnx, other",
        ),
        (
            ["models", "other"],
            "out",
            "E10001: b.onnx would be both a model and a folder of other models",
            "other/b.onnx, models",
        ),
        (
            ["records"],
            "out",
            "E10001: the folder fusionc_records of the output is reserved",
            "records/fusionc_records",
        ),
    ],
)
def test_what_cannot_be_meant(given: list[str], output: str, problem: str, where: str) -> None:
    make(
        "models/a.onnx",
        "models/b.onnx/c.onnx",
        "models/models/a.onnx",
        "models/models/models/a.onnx",
        "other/b.onnx",
    )
    make("records/fusionc_records/a.onnx")
    if "other/a.onnx" in given:
        make("other/a.onnx")
    Path("empty").mkdir()
    with pytest.raises(UsageError) as caught:
        found(*given, output=output)
    assert f"{caught.value}".startswith(problem) and f"\n  where: {where}" in f"{caught.value}"


def test_a_folder_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    make("models/sub/a.onnx")

    def listdir(path: Path) -> list[str]:
        if path.name == "sub":
            raise PermissionError(13, "Permission denied")
        return ["sub"]

    monkeypatch.setattr(find_models.os, "listdir", listdir)
    with pytest.raises(
        FusioncError, match=r"cannot be read: Permission denied\n  where: models/sub\n"
    ):
        found("models")
