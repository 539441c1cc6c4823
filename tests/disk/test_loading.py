"""Reading a model: what is no model is said so, in one error."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from harness import parse

from fusionc.disk.load import load
from fusionc.errors import FusioncError


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, "E10410"),
        ("folder", "E10410"),
        (b"\xff" * 100, "E13005"),
        (b"", "E13005"),
        (b"{}", "E13005"),
    ],
)
@pytest.mark.parametrize("name", ["m.onnx", "m.json", "m.txt"])
def test_what_is_not_a_model(
    tmp_path: Path, content: bytes | str | None, code: str, name: str
) -> None:
    file = tmp_path / name
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        file.mkdir()
    with pytest.raises(FusioncError) as caught:
        load(file)
    assert caught.value.code == code and str(file) in caught.value.where
    assert caught.value.exit_code == (2 if code == "E10410" else 1)


def test_the_name_of_the_file_does_not_matter(tmp_path: Path) -> None:
    model = parse("agraph (float[N] x) => (float[N] y) { y = Relu (x) }")
    (tmp_path / "m.json").write_bytes(model.SerializeToString())
    assert load(tmp_path / "m.json") == model


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(onnx, "load", refuse)
    with pytest.raises(FusioncError, match="cannot be read: Permission denied"):
        load(tmp_path / "m.onnx")
