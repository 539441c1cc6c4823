from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from fusionc.errors import FusioncError
from fusionc.tune.tuning_journal import TuningJournal


def journal(path: Path, identity: str = "a") -> TuningJournal:
    ticks = count()
    return TuningJournal(path, identity, clock=lambda: float(next(ticks)))


def refuse() -> None:
    raise AssertionError("it is known")


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "out.tune.jsonl"
    first = journal(path)
    assert first.step("one", lambda: {"x": [1.5, "ä"]}) == {"x": [1.5, "ä"]}
    with pytest.raises(KeyboardInterrupt):
        first.step("two", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    again = journal(path)
    assert again.is_continued and not first.is_continued
    assert again.step("one", refuse) == {"x": [1.5, "ä"]} and again.spent == 1.0
    assert again.step("two", lambda: 2) == 2 and again.spent == 2.0
    assert journal(path).step("two", refuse) == 2
    again.remove()
    assert not path.exists()


def test_what_is_no_measuring_spends_nothing(tmp_path: Path) -> None:
    first = journal(tmp_path / "out.tune.jsonl")
    assert first.step("one", lambda: 1, is_measuring=False) == 1 and first.spent == 0.0
    again = journal(tmp_path / "out.tune.jsonl")
    assert again.step("one", refuse, is_measuring=False) == 1 and again.spent == 0.0


def test_a_line_that_was_being_written_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "out.tune.jsonl"
    journal(path).step("one", lambda: 1)
    with path.open("a") as file:
        file.write('{"step": "two", "val')
    again = journal(path)
    assert again.step("two", lambda: 2) == 2
    assert journal(path).step("one", refuse) == 1 and journal(path).step("two", refuse) == 2


def test_another_run_begins_anew_and_takes_nothing_from_the_first(tmp_path: Path) -> None:
    """A mistyped option makes another run, too."""
    path = tmp_path / "out.tune.jsonl"
    journal(path).step("one", lambda: 1)
    other = journal(path, "b")
    assert not other.is_continued and other.step("one", lambda: 3) == 3
    first = journal(path)
    assert (
        first.is_continued and first.step("one", refuse) == 1 and first.step("two", lambda: 2) == 2
    )
    assert first.step("three", lambda: 4) == 4
    assert journal(path, "b").step("one", refuse) == 3
    again = journal(path)
    assert [again.step(name, refuse) for name in ("one", "two", "three")] == [1, 2, 4]


def test_two_runs_may_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "out.tune.jsonl"
    one = journal(path)
    other = journal(path, "b")
    for number, run in enumerate((one, other, one, other)):
        run.step(f"step {number}", lambda value=number: value)
    again = journal(path)
    other = journal(path, "b")
    assert [again.step(name, refuse) for name in ("step 0", "step 2")] == [0, 2]
    assert [other.step(name, refuse) for name in ("step 1", "step 3")] == [1, 3]
    assert again.step("step 1", lambda: 9) == 9
    again.remove()
    assert [journal(path, "b").step(name, refuse) for name in ("step 1", "step 3")] == [1, 3]
    assert not journal(path).is_continued
    journal(path, "b").remove()
    assert not path.exists()


def test_there_is_no_file_before_a_step(tmp_path: Path) -> None:
    path = tmp_path / "out.tune.jsonl"
    with pytest.raises(ZeroDivisionError):
        journal(path).step("one", lambda: 1 / 0)
    assert not path.exists()


@pytest.mark.parametrize("content", [b"\xff", b"hello", b"[]", b'{"other": 1}'])
def test_a_file_of_others_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "out.tune.jsonl"
    path.write_bytes(content)
    with pytest.raises(FusioncError, match="a file that fusionc did not make"):
        journal(path)
    assert path.read_bytes() == content


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FusioncError, match="the journal cannot be written"):
        journal(tmp_path / "absent" / "out.tune.jsonl").step("one", lambda: 1)
