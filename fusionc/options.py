"""What a conversion is asked for: the arguments of `fusionc.convert`, checked and typed.

The command line has checked them already; those who call `fusionc.convert` themselves get the same
errors here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusionc.disk.paths import path_of, require_file_place, require_path, require_unread
from fusionc.errors import UsageError, shown
from fusionc.report.plog import LEVELS as LOG_LEVELS
from fusionc.requested.dimension_size import DimensionSize
from fusionc.runtime.optimizers import LEVELS

_SWITCHES = (
    "verify", "oo_constant_folding", "oo_dead_code_elimination", "pattern_fusion_pass", "enable_graph_kernel",
    "trust_kernels", "check_rewrites", "ready",
)  # fmt: skip
_FILES = {
    "fusion_switch_file": 'give the path of a switch file; optimization_switch takes "P:on;Q:off"',
    "dump_graph": "give the path of a folder",
    "inputs": "give an .npz file, which numpy.savez(path, **values) writes, or a folder of samples",
    "report": "give the path of the page to write",
}
_TEXTS = {
    "optimization_switch": 'give "P:on;Q:off"',
    "graph_kernel_flags": 'give "--opt_level=2"',
    "log": f"give one of {', '.join(LOG_LEVELS)}",
}
# of files, with an example
_LISTS = {"custom_passes": "my_passes.py", "custom_op_library": "libcustom.so"}
_NO_MODELS = frozenset(
    {".json", ".html", ".npz", ".npy", ".so", ".dll", ".py", ".txt", ".csv", ".data", ".ort"}
)
TARGETS = ("onnxruntime-cpu", "onnx")
OO_LEVELS = ("O1", "O3")
ON_MISMATCH = ("fail", "rollback")


@dataclass(frozen=True)
class Options:
    """As `fusionc.convert` explains them: `source` is the model, `destination` where the result
    goes.
    """

    source: Path
    destination: Path
    fusion_switch_file: Path | None
    optimization_switch: str | None
    oo_level: str
    oo_constant_folding: bool
    oo_dead_code_elimination: bool
    external_weight: int | None
    input_shape: Mapping[str, Sequence[DimensionSize]] | None
    free_dim: Mapping[str, Mapping[int, str]] | None
    out_nodes: str | Sequence[str] | None
    output_type: str | Mapping[str, str] | None
    verify: bool
    on_mismatch: str
    check_rewrites: bool
    verify_shape: Mapping[str, tuple[int, ...]] | None
    inputs: Path | None
    custom_op_library: tuple[Path, ...]
    runtime_level: tuple[str, ...]
    verify_budget: float | None
    export_compile_stat: int
    log: str | None
    target: str
    target_opset: int | None
    custom_passes: tuple[Path, ...]
    pattern_fusion_pass: bool
    dump_graph: Path | None
    report: Path | None
    enable_graph_kernel: bool | None
    graph_kernel_flags: str | None
    trust_kernels: bool
    ready: bool
    timeout: float | None
    progress: Callable[[str], None]

    def notices(self) -> list[str]:
        """Which of them have no effect beside the others."""
        idle = [] if self.verify or self.report or self.inputs is None else ["--inputs"]
        idle += (
            []
            if self.verify or self.check_rewrites or self.on_mismatch == "fail"
            else ["--on_mismatch"]
        )
        return [f"{name} has no effect without verification" for name in idle]


def options_of(given: Mapping[str, Any]) -> Options:
    """The arguments of `fusionc.convert` by name. Raises UsageError where one is wrong, or a path
    leads nowhere.
    """
    _check(given)
    options = {name: value for name, value in given.items() if name not in ("model", "output")}
    options |= {
        name: None if given[name] is None else path_of(given[name], name, hint)
        for name, hint in _FILES.items()
    }
    options |= {name: tuple(map(Path, given[name])) for name in _LISTS}
    options["runtime_level"] = tuple(given["runtime_level"])
    options["free_dim"] = _symbols(given["free_dim"])
    options["progress"] = given["progress"] or (lambda _: None)
    source = path_of(
        given["model"],
        "model",
        "give the path of a model; fusionc.optimize takes a model in memory",
    )
    require_path(source, "model")
    output = (
        None
        if given["output"] is None
        else path_of(given["output"], "output", "give the path of a file")
    )
    destination = output_path(source, output)
    read = {
        source: "the model itself",
        **dict.fromkeys(options["custom_passes"], "a file of custom passes"),
    }
    if options["fusion_switch_file"] is not None:
        read[options["fusion_switch_file"]] = "the switch file"
    read |= dict.fromkeys(options["custom_op_library"], "a library of custom operators")
    if options["inputs"] is not None:
        require_path(options["inputs"], "path of the inputs")
        read[options["inputs"]] = "the inputs"
    require_unread(destination, "--output", read)
    if options["report"] is not None:
        require_path(options["report"], "page of the report")
        require_unread(options["report"], "--report", {**read, destination: "the model to write"})
    return Options(source=source, destination=destination, **options)


def output_path(model: Path, output: Path | None) -> Path:
    """Where the result goes. Raises UsageError where that is a folder, or named as what is no
    model.
    """
    path = Path(f"{model.stem}_fusionc.onnx") if output is None else output
    if path.suffix.lower() in _NO_MODELS:
        hint = "give --output a name that ends in .onnx, or has no ending"
        what = f"the output is an ONNX model, and its name ends in {path.suffix}"
        raise UsageError(what, where=str(path), hint=hint, code="E10001")
    require_file_place(path, "--output")
    if path.suffix.lower() != ".onnx" and path.name:
        path = path.with_name(f"{path.name}.onnx")
    require_path(path, "output")
    require_file_place(path, "--output")
    if path.is_dir() or (output is not None and output.is_dir()):
        hint = "give --output another file name"
        raise UsageError(
            "the output is a folder", where=str(output or path), hint=hint, code="E10001"
        )
    return path


def _check(given: Mapping[str, Any]) -> None:
    """Raise UsageError where the type or the range of one of these arguments is wrong.

    Text is refused where True or False is wanted: "false" would count as True.
    """
    for name, hint in _TEXTS.items():
        if not isinstance(given[name], str | None):
            raise _wrong(name, given, hint)
    for name in _SWITCHES:
        if not isinstance(given[name], bool | None):
            raise _wrong(name, given, "give True or False")
    if given["external_weight"] not in (None, 0, 1):
        raise _wrong("external_weight", given, "give 0, 1 or None")
    if given["export_compile_stat"] not in (0, 1, 2):
        raise _wrong("export_compile_stat", given, "give 0, 1 or 2")
    if given["progress"] is not None and not callable(given["progress"]):
        raise _wrong("progress", given, "give a function that takes a text: print")
    for name, ranges in (("input_shape", True), ("verify_shape", False)):
        shapes = given[name]
        if shapes is not None and not (
            isinstance(shapes, Mapping) and all(_is_shape(s, ranges) for s in shapes.values())
        ):
            raise _wrong(name, given, 'give {"x": (1, 3, 224, 224)}', ", not shapes by input name")
    _check_outputs(given)
    free = given["free_dim"]
    if free is not None and not (isinstance(free, Mapping) and all(map(_is_axes, free.values()))):
        raise _wrong(
            "free_dim",
            given,
            'give {"x": (0, 2)} or {"x": {0: "batch"}}',
            ", not axes by input name",
        )
    for name, unit in (("timeout", "seconds"), ("verify_budget", "billions of elements")):
        number = given[name]
        if number is not None and not (isinstance(number, int | float) and 0 <= number <= 1e9):
            raise _wrong(name, given, f"give {unit}, 0 for no limit, or None")
    opset = given["target_opset"]
    if opset is not None and not (isinstance(opset, int) and opset > 0):
        raise _wrong("target_opset", given, "give a number, or None for the opset of the model")
    for name, example in _LISTS.items():
        files = given[name]
        if (
            not isinstance(files, Sequence | Set)
            or isinstance(files, str)
            or not all(map(_is_path, files))
        ):
            raise _wrong(name, given, f'give a list of files: ["{example}"]')
    levels = given["runtime_level"]
    if (
        isinstance(levels, str)
        or not isinstance(levels, Collection)
        or not all(level in LEVELS for level in levels)
    ):
        raise _wrong("runtime_level", given, f"give a list of some of {', '.join(LEVELS)}")
    for name, choices in (
        ("target", TARGETS),
        ("oo_level", OO_LEVELS),
        ("on_mismatch", ON_MISMATCH),
    ):
        if given[name] not in choices:
            raise _wrong(name, given, f"give one of {', '.join(choices)}")


def _check_outputs(given: Mapping[str, Any]) -> None:
    """Raise UsageError where these are neither a text nor names, and types by name."""
    nodes = given["out_nodes"]
    if not isinstance(nodes, str | Sequence | None) or not all(
        isinstance(name, str) for name in nodes or ()
    ):
        raise _wrong("out_nodes", given, 'give "conv1:0;logits", or a list of names')
    types = given["output_type"]
    texts = (
        [*types, *types.values()]
        if isinstance(types, Mapping)
        else []
        if types is None
        else [types]
    )
    if not all(isinstance(text, str) for text in texts):
        raise _wrong(
            "output_type", given, 'give "FP16", "conv1:0:FP16;logits:FP32" or {"logits": "FP32"}'
        )


def _wrong(name: str, given: Mapping[str, Any], hint: str, wanted: str = "") -> UsageError:
    return UsageError(f"{name} is {shown(given[name])}{wanted}", hint=hint, code="E10001")


def _is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike)


def _is_shape(shape: object, ranges: bool) -> bool:
    """Whether this is a sequence of numbers and, with `ranges`, of pairs of numbers."""
    sizes = shape if isinstance(shape, Sequence) and not isinstance(shape, str) else (None,)
    pairs = (size if isinstance(size, tuple) and ranges else (size, size) for size in sizes)
    return all(len(pair) == 2 and all(isinstance(size, int) for size in pair) for pair in pairs)


def _is_axes(axes: object) -> bool:
    """Whether these are axes, or symbols by axis."""
    if isinstance(axes, Mapping) and not all(isinstance(symbol, str) for symbol in axes.values()):
        return False
    return (
        isinstance(axes, Mapping | Sequence)
        and not isinstance(axes, str)
        and all(isinstance(a, int) for a in axes)
    )


def _symbols(axes: Mapping[str, Any] | None) -> dict[str, dict[int, str]] | None:
    """By input name and axis the symbol, empty where none was given."""
    if axes is None:
        return None
    return {
        name: dict(given) if isinstance(given, Mapping) else dict.fromkeys(given, "")
        for name, given in axes.items()
    }
