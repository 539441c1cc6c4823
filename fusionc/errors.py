"""Errors for the user: what went wrong, where, and what to do now."""

import difflib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

_SHORTEST_PART = 3  # characters that a name and a longer one must share
_CLEARLY = 0.1  # one candidate is clearly more similar if its similarity is greater by this
_LONGEST_QUOTE = 120  # characters
# An error shows at most this many details. A file with more mistakes is probably the wrong file.
SHOWN = 20
# What each code means, and what to do. The codes and their meanings are those of ATC, the model
# converter of Ascend.
CODES = {
    "E10001": (
        "The value of an option is not allowed, or it does not fit the model.",
        "The message names the option and the values that are possible.",
    ),
    "E10004": (
        "An option is unknown, or it has no value.",
        "The message names the nearest options. `fusionc help COMMAND` lists all.",
    ),
    "E10007": (
        "An option or argument that the command needs is missing.",
        "The message names it.",
    ),
    "E10010": (
        "The log level is unknown.",
        "Set --log or the environment variable that the message names to one of the listed levels.",
    ),
    "E10016": (
        "The model has no input, node or value of this name.",
        "The message lists the names that the model has, or the nearest one.",
    ),
    "E10052": (
        "The configuration file of AIPP has mistakes, or it does not fit the model.",
        "The message names the line, the key and the values that are possible.",
    ),
    "E10410": (
        "A file or folder does not exist, or it is of the wrong kind.",
        "Check the path. Relative paths start in the current folder.",
    ),
    "E13001": (
        "The path of external data leaves the folder of the model.",
        "Keep the weights in the folder of the model, and name them relative to it.",
    ),
    "E13003": (
        "A file cannot be read, or it is cut off.",
        "Check its permissions. If it is shorter than it should be, copy it again.",
    ),
    "E13004": (
        "A file cannot be written.",
        "Check the permissions of the folder and its free space. fusionc does not replace files "
        "that it did not write; move such a file away.",
    ),
    "E13005": (
        "The model is not valid ONNX, or its opset is newer than the installed onnx.",
        "The message says which part is not. Export the model again, or install a newer onnx.",
    ),
    "E13028": (
        "The result differs from the model, or onnxruntime cannot load the result. Nothing was "
        "written.",
        "The message names the rewrite at fault and the switch that turns its pass off. "
        "`fusionc bisect` finds all rewrites at fault; `--on_mismatch rollback` leaves them out.",
    ),
    "E19010": (
        "--mode 3 found operators that the target cannot run.",
        "The file of --check_report names each operator and the cause.",
    ),
    "E19999": (
        "A failure that has no code of its own.",
        "The message says what failed. If fusionc has a bug, the message asks you to report it.",
    ),
    "E20007": (
        "A pass failed, did not end, or made an invalid graph.",
        "Switch the pass off; the message gives the switch. If it is your own pass, correct it.",
    ),
    "E21001": (
        "The switch file cannot be read.",
        "Check the path. `fusionc switch_file --output FILE` writes one to start from.",
    ),
    "E21002": (
        "The switch file has mistakes.",
        "The message gives the line, the column and the nearest name for each.",
    ),
}
# The most names that a message lists. The published switch file of CANN, whose names fusionc may
# have to list, has fewer.
_MOST_NAMES = 400


def printable(text: str) -> str:
    """The text on one line, safe for terminals and logs.

    Control characters, line breaks and lone surrogates become escapes (\\x1b, \\n). Names in models
    and files may contain any of these characters.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def said(error: BaseException) -> str:
    """The type of an error and its text; only the type if `str(error)` raises an exception."""
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:
        return type(error).__name__


def advice(name: str, candidates: Iterable[str], otherwise: str) -> str:
    """Advice for a wrong name: the question whether the user meant the most similar candidate, or
    `otherwise` if no candidate is similar.
    """
    near = nearest(name, candidates)
    return f"did you mean {quote(near)}?" if near else otherwise


def nearest(name: str, candidates: Iterable[str], others: Iterable[str] = ()) -> str | None:
    """The candidate most similar to `name`, as `similar` finds it. The most similar of the `others`
    is returned instead if it is clearly more similar, or if no candidate is similar. The result is
    None if nothing is similar.
    """
    near = next(iter(similar(name, candidates)), None)
    other = next(iter(similar(name, others)), None)
    if near is None or other is None:
        return near or other
    return other if _similarity(name, other) > _similarity(name, near) + _CLEARLY else near


def similar(name: str, candidates: Iterable[str]) -> list[str]:
    """The candidates that are similar to `name`, ignoring case, the most similar first. If there
    are candidates that contain `name`, these are returned: first those that begin with it, and the
    shorter before the longer. Of candidates that differ only in case, the last one is returned.
    """
    folded = {candidate.casefold(): candidate for candidate in candidates}
    wanted = name.casefold()
    matches = [one for one in folded if wanted in one and len(wanted) >= _SHORTEST_PART]
    matches = sorted(matches, key=lambda one: (not one.startswith(wanted), len(one), one))
    return [folded[one] for one in matches or difflib.get_close_matches(wanted, sorted(folded))]


def _similarity(name: str, other: str) -> float:
    """From 0 (nothing in common) to 1 (`other` contains `name` or is equal). Case is ignored."""
    wanted = name.casefold()
    found = other.casefold()
    return 1.0 if wanted in found else difflib.SequenceMatcher(None, wanted, found).ratio()


class Typos:
    """Recognizes words that differ from a name in at most two letters, ignoring case. A letter may
    be missing, added or replaced.

    A word can only be a typo of a name if removing at most two of the first letters of each leaves
    the same remainder. So names are looked up by such remainders, and a word is compared only with
    the names that have a remainder in common with it.
    """

    _FIRST = 7  # letters

    def __init__(self, names: Iterable[str]) -> None:
        self._by_remainder: dict[str, set[str]] = {}
        for name in {name.casefold() for name in names}:
            for remainder in _remainders(name[: self._FIRST]):
                self._by_remainder.setdefault(remainder, set()).add(name)
        self._similar: dict[str, set[str]] = {}  # names, by the first letters of a word

    def __contains__(self, word: str) -> bool:
        folded = word.casefold()
        start = folded[: self._FIRST]
        if start not in self._similar:
            sets = (self._by_remainder.get(remainder, ()) for remainder in _remainders(start))
            self._similar[start] = set[str]().union(*sets)
        return any(_differs_by(folded, name, 2) for name in self._similar[start])


def _remainders(letters: str) -> Iterator[str]:
    """What is left of the letters when zero, one or two of them are removed, in every way."""
    for length in range(max(len(letters) - 2, 0), len(letters) + 1):
        yield from map("".join, combinations(letters, length))


def _differs_by(word: str, name: str, letters: int) -> bool:
    """Whether at most `letters` letters of the name are missing, added or replaced in the word."""
    if word == name or letters == 0 or abs(len(word) - len(name)) > letters:
        return word == name
    pairs = zip(word, name, strict=False)
    same = next((at for at, (one, other) in enumerate(pairs) if one != other), len(name))
    rests = (word[same:], word[same + 1 :], name[same:], name[same + 1 :])
    return (
        _differs_by(rests[1], rests[3], letters - 1)
        or _differs_by(rests[1], rests[2], letters - 1)
        or _differs_by(rests[0], rests[3], letters - 1)
    )


def choice_text(choices: Iterable[object]) -> str:
    """Each choice once, as in "a, b or c"."""
    *others, last = dict.fromkeys(map(str, choices))
    return f"{', '.join(others)} or {last}" if others else last


def quote(value: object) -> str:
    """A value as JSON, cut if it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 1] + "…"


def listing(names: Sequence[str]) -> str:
    """The names for a message: the first _MOST_NAMES of them, and the number of the others."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def shown(value: object) -> str:
    """The `repr` of a simple argument, cut if it is long. For any other object only its type is
    named, because the `repr` of a model would fill many screens.
    """
    if isinstance(value, str | int | float | list | tuple | dict | os.PathLike | None):
        text = repr(value)
        return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 1] + "…"
    return f"a {type(value).__name__}"


class FusioncError(Exception):
    """An error that ends the command with one readable block instead of a traceback.

    `code` is ATC's error code for the situation, if ATC has one (E10001 a wrong value, E10410 a
    missing file, …). `what` says what is wrong. Each of `details` adds a line. `where` names the
    file, option or node. `hint` says what to do now. All these texts go through `printable`,
    because names in models and files may contain any character.
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        hint: str = "",
        code: str = "E19999",
        details: Sequence[str] = (),
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint
        self.code = code
        self.details = tuple(details)
        self.log_file: object = None  # the path of the log, which has more details

    def as_json(self) -> dict[str, object]:
        """The error as plain data."""
        names = ("code", "what", "details", "where", "hint")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.what}", *(f"  {detail}" for detail in self.details[:SHOWN])]
        if len(self.details) > SHOWN:
            lines.append(f"  … and {len(self.details) - SHOWN} more")
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  to do: {self.hint}")
        return "\n".join(map(printable, lines))


class Defect(FusioncError):
    """A failure that is caused by a bug in fusionc or by an invalid model."""


class Terminated(SystemExit):
    """The exit after a signal or a timeout. A plain SystemExit comes from users' code."""


class UsageError(FusioncError):
    """An option, a switch or a switch file that cannot be understood. Exit code 2."""

    exit_code = 2


class VerificationError(FusioncError):
    """The result does not compute what the original computes; nothing was written. Exit code 3."""

    exit_code = 3


class UnverifiedError(FusioncError):
    """Nothing of a result could be verified, and --require_verification is given. Exit code 4."""

    exit_code = 4
