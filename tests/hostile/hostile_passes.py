"""Users' own passes that fail in every way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hostile_case import Case, options, valid

_HEAD = "import fusionc\nfrom fusionc import op\ndef s(x): return op.Relu(x)\n"
_OWN = "\nfusionc.register_replacement(s, r, name='Own')\n"
WORDS = options("--custom_passes", "p.py")


def _file(content: str | bytes) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        valid(folder)
        (folder / "p.py").write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def _loading(name: str, code: str | bytes, *says: str, exit_code: int = 1) -> Case:
    return Case(f"passes: {name}", _file(code), ("p.py", *says), exit_code, WORDS)


def _running(name: str, body: str, *says: str, exit_code: int = 1) -> Case:
    """A pass whose replacement function has this body."""
    return Case(
        f"passes: {name}",
        _file(_HEAD + "def r(x):\n" + body + _OWN),
        ("Own", *says),
        exit_code,
        WORDS,
    )


CASES = [
    _loading("a syntax error", "def s(x:\n", "p.py:1", "SyntaxError"),
    _loading("no Python at all", b"\x7fELF\xff\xfe\0", "p.py"),
    _loading("a NUL", b"a = 1\0\n", "p.py"),
    _loading("not UTF-8", b"a = '\xff'\n", "p.py"),
    _loading("an encoding that there is not", b"# coding: nothing\n", "p.py"),
    _loading("deeply nested", "(" * 1000 + ")" * 1000),
    _loading("it fails", "1 / 0\n", "p.py:1", "ZeroDivisionError"),
    _loading(
        "it fails with escapes", "raise ValueError('\\x1b[31mred\\nE99999: no')\n", "\\x1b[31mred"
    ),
    _loading(
        "it imports what there is not", "import nothing_of_that_name\n", "ModuleNotFoundError"
    ),
    _loading("it ends the program", "raise SystemExit(0)\n", "SystemExit"),
    _loading("it raises a BaseException", "raise BaseException('no')\n", "BaseException: no"),
    _loading(
        "it raises its own BaseException", "class Own(BaseException): pass\nraise Own\n", "Own"
    ),
    _loading("it raises GeneratorExit", "raise GeneratorExit\n", "GeneratorExit"),
    _loading("it recurses", "def f(): f()\nf()\n", "RecursionError"),
    _loading("it wants all memory", "a = bytes(1 << 62)\n", "p.py:1"),
    _loading("it does not end", "while True: pass\n", "did not end within"),
    _loading(
        "it raises what cannot be shown",
        "class Own(Exception):\n  def __str__(self): raise ValueError\nraise Own\n",
        "Own",
    ),
    _loading(
        "a pass called \\n",
        _HEAD + "fusionc.register_replacement(s, s, name='a\\nb')\n",
        exit_code=2,
    ),
    _running(
        "the rewrite raises a BaseException",
        "  raise BaseException('no')",
        "p.py:",
        "BaseException: no",
    ),
    _running("the rewrite raises GeneratorExit", "  raise GeneratorExit", "p.py:", "GeneratorExit"),
    _running(
        "the rewrite raises with escapes",
        "  raise ValueError('\\x1b[31mred\\nE99999: no')",
        "\\x1b[31mred",
    ),
    _running("the rewrite ends the program", "  raise SystemExit(3)", "SystemExit: 3"),
    _running("the rewrite recurses", "  return r(x)", "RecursionError"),
    _running("the rewrite wants all memory", "  return op.Neg(bytes(1 << 62))", "p.py:"),
    _running("the rewrite gives text", "  return 'x'", "neither a value"),
    _running("the rewrite gives itself", "  return r", "p.py"),
    _running("the rewrite does not end", "  while True: pass", "did not end within"),
    _running("the rewrite is wrong", "  return op.Neg(x)", "does not compute", exit_code=3),
    _running(
        "the rewrite makes names with escapes", "  return op.Own(x, domain='\\x1b[2J')", exit_code=3
    ),
    Case(
        "passes: a folder", lambda f: (valid(f), (f / "p.py").mkdir()), ("E10410", "p.py"), 2, WORDS
    ),
    Case("passes: no file", valid, ("E10410", "p.py"), 2, WORDS),
]
