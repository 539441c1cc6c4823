"""A text on the disk is whole, whoever writes at the same time and whatever goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusionc.disk.small_files import replace_text


def test_two_writers_in_one_process_do_not_get_in_each_others_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fusion_result.json"
    replace = Path.replace

    def replace_behind_another(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", replace)
        replace_text(file, "first")
        return self.replace(target)

    monkeypatch.setattr(Path, "replace", replace_behind_another)
    replace_text(file, "second")
    assert file.read_text() == "second"
    assert list(tmp_path.iterdir()) == [file]


def test_an_interrupted_write_leaves_the_former_text_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fusion_result.json"
    file.write_text("former")

    def interrupt(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        replace_text(file, "new")
    assert file.read_text() == "former"
    assert list(tmp_path.iterdir()) == [file]
