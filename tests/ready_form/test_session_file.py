"""What a session file says of other files."""

from __future__ import annotations

from pathlib import Path

from fusionc.ready_form.session_file import identity_of


def test_a_file_that_is_not_beside_the_model_does_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "out.onnx"
    folder = tmp_path / "folder"
    file.write_bytes(b"model")
    folder.mkdir()
    assert identity_of(file, file.name).fits(tmp_path)
    assert not identity_of(file, f"../{file.name}").fits(folder)
    assert not identity_of(file, str(file)).fits(folder)
