"""Options, flags and values that do not exist or have no meaning."""

from __future__ import annotations

from hostile_case import CONVERT, Case, options, valid

_KERNELS = "--graph_kernel_flags"


def _wrong(name: str, *words: str, says: tuple[str, ...] = ()) -> Case:
    return Case(f"options: {name}", valid, says, 2, options(*words))


def _noticed(name: str, *words: str, says: tuple[str, ...]) -> Case:
    """A flag that is ignored with a notice, as MindSpore does with unknown flags."""
    return Case(
        f"options: {name}", valid, ("notice", *says), 0, (*options(*words), "--target", "onnx")
    )


CASES = [
    Case("options: none", valid, ("--model",), 2, ("convert",)),
    Case("options: an unknown command", valid, ("No such command", "convert?"), 2, ("convrt",)),
    Case(
        "options: an unknown command with escapes",
        valid,
        ("No such command",),
        2,
        ("\x1b[31mx\r\n",),
    ),
    Case("options: a word too many", valid, ("word",), 2, (*CONVERT, "word")),
    Case("options: an empty model", valid, (), 2, ("convert", "--model", "")),
    Case("options: no model of that name", valid, ("E10410",), 2, ("convert", "--model", "n.onnx")),
    Case(
        "options: a name with escapes",
        valid,
        ("E10410", "\\x1b[31mn"),
        2,
        ("convert", "--model", "\x1b[31mn\r\n"),
    ),
    Case("options: a name too long", valid, (), 2, ("convert", "--model", "m" * 5000)),
    Case("options: a folder for a model", valid, ("--output",), 2, ("convert", "--model", ".")),
    Case(
        "options: the model for an output",
        valid,
        ("names the model itself",),
        2,
        ("convert", "--model", "m.onnx", "--output", "m"),
    ),
    _wrong("an unknown option", "--modle", "m.onnx", says=("--mod",)),
    _wrong("an unknown option with escapes", "--\x1b[31m\r\n"),
    _wrong("an option without a value", "--target"),
    _wrong("an unknown target", "--target", "gpu"),
    _wrong("opset 0", "--target_opset", "0"),
    _wrong("an opset that is no number", "--target_opset", "new"),
    _wrong("opset 9999", "--target_opset", "9999"),
    _wrong("an opset of 10,000 digits", "--target_opset", "9" * 10_000),
    _wrong("a mode that there is not", "--mode", "9"),
    _wrong("mode 1 without a file", "--mode", "1", says=("--json",)),
    _wrong("another framework", "--framework", "3"),
    _wrong("another boolean", "--external_weight", "maybe"),
    _wrong("a shape of nothing", "--input_shape", ""),
    _wrong("a shape without a name", "--input_shape", "1,2"),
    _wrong("a shape of no numbers", "--input_shape", "x:a"),
    _wrong("a shape of an unknown input", "--input_shape", "z:1", says=("has no input z",)),
    _wrong("a shape of an input with escapes", "--input_shape", "\x1b[2J:1", says=("\\x1b[2J",)),
    _wrong("a shape of another rank", "--input_shape", "x:1,2", says=("not 2",)),
    _wrong("a negative size", "--input_shape", "x:-7"),
    _wrong("a shape twice", "--input_shape", "x:1;x:2"),
    _wrong("a size of 10,000 digits", "--input_shape", "x:" + "9" * 10_000),
    _wrong("a switch of nothing", "--optimization_switch", "on"),
    _wrong("a switch with another value", "--optimization_switch", "IdentityPass:maybe"),
    _wrong(
        "a switch of an unknown pass",
        "--optimization_switch",
        "IdentityPas:off",
        says=("IdentityPass",),
    ),
    _wrong("a switch with escapes", "--optimization_switch", "\x1b[2J:off", says=("\\u001b[2J",)),
    _wrong("an unknown level of the log", "--log", "loud"),
    _noticed("an unknown flag", _KERNELS, "--nothing=1", says=("Unknown flag: nothing",)),
    _noticed("a flag with escapes", _KERNELS, "--\x1b[2J=1", says=("\\x1b[2J",)),
    _noticed("a flag without hyphens", _KERNELS, "opt_level=1", says=("is invalid",)),
    _noticed("a level that there is not", _KERNELS, "--opt_level=9", says=("is above 3",)),
    _noticed("a level that is no number", _KERNELS, "--opt_level=high", says=("is invalid",)),
    _noticed(
        "a level of 10,000 digits", _KERNELS, "--opt_level=" + "9" * 10_000, says=("is invalid",)
    ),
    _noticed("quotes that do not close", _KERNELS, '--opt_level="1', says=("is invalid",)),
    _noticed("an unknown stage", _KERNELS, "--disable_pass=9.9", says=("is not valid",)),
]
