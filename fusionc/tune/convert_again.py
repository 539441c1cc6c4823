"""The command that converts to what a tuning has delivered, for those who want it without measuring
again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fusionc.options import ON_MISMATCH, OO_LEVELS, TARGETS, Options
from fusionc.requested.dimension_size import DimensionSize
from fusionc.runtime.optimizers import DEFAULT_LEVELS
from fusionc.tune.configuration import Configuration
from fusionc.tune.deliver import beside


def command_to_convert(options: Options, delivered: Configuration, switches: Path) -> list[str]:
    """The words of a command that converts to the same model with the switch file of the tuning,
    beside it. Settings of a session are no part of it, and a conversion to the place of the tuned
    model would remove them.
    """
    output = beside(options.destination, "again.onnx")
    words = ["fusionc", "convert", "--model", str(options.source), "--output", str(output)]
    words += ["--fusion_switch_file", str(switches)]
    made = delivered.options(options, options.destination)
    flags = made.graph_kernel_flags
    if not delivered.is_original:
        if options.optimization_switch:  # it beats the switch file
            words.append(f"--optimization_switch={made.optimization_switch}")
        words += [f"--graph_kernel_flags={flags}"] if flags else []
        words += _of_passes(options)
    if delivered.kernels or flags:  # which may mean kernels by themselves
        words.append(
            "--enable_graph_kernel" if delivered.kernels else "--enable_graph_kernel=false"
        )
    return [*words, *_of_model(options), *_of_verification(options)]


def _of_passes(options: Options) -> Iterator[str]:
    if options.oo_level != OO_LEVELS[-1]:
        yield f"--oo_level={options.oo_level}"
    for name in ("oo_constant_folding", "oo_dead_code_elimination", "pattern_fusion_pass"):
        if not getattr(options, name):
            yield f"--{name}=false"
    for path in options.custom_passes:
        yield from ("--custom_passes", str(path))


def _of_model(options: Options) -> Iterator[str]:
    """What is asked of the model, whichever passes run."""
    if options.input_shape:
        yield from ("--input_shape", _shapes(options.input_shape))
    if options.free_dim:
        axes = {
            name: ",".join(
                f"{axis}={symbol}" if symbol else str(axis) for axis, symbol in given.items()
            )
            for name, given in options.free_dim.items()
        }
        yield from ("--free_dim", ";".join(f"{name}:{given}" for name, given in axes.items()))
    yield from _of_outputs(options)
    for name in ("target_opset", "external_weight"):
        if (number := getattr(options, name)) is not None:
            yield from (f"--{name}", str(number))
    if options.target != TARGETS[0]:
        yield from ("--target", options.target)
    for path in options.custom_op_library:
        yield from ("--custom_op_library", str(path))
    if options.trust_kernels:
        yield "--trust_kernels"


def _of_outputs(options: Options) -> Iterator[str]:
    if nodes := options.out_nodes:
        yield from ("--out_nodes", nodes if isinstance(nodes, str) else ";".join(nodes))
    if types := options.output_type:
        yield from (
            "--output_type",
            types if isinstance(types, str) else ";".join(map(":".join, types.items())),
        )


def _of_verification(options: Options) -> Iterator[str]:
    """How the result is verified, and what becomes of one that is wrong."""
    if not options.verify:
        yield "--no-verify"
    if options.on_mismatch != ON_MISMATCH[0]:
        yield from ("--on_mismatch", options.on_mismatch)
    if options.check_rewrites:
        yield "--check_rewrites"
    if options.timeout is not None:
        yield from ("--timeout", f"{options.timeout:g}")
    if options.verify_budget is not None:
        yield from ("--verify_budget", f"{options.verify_budget:g}")
    if options.inputs is not None:
        yield from ("--inputs", str(options.inputs))
    if options.verify_shape:
        yield from ("--verify_shape", _shapes(options.verify_shape))
    if options.runtime_level != tuple(DEFAULT_LEVELS):
        for level in options.runtime_level:
            yield from ("--runtime_level", level)


def _shapes(shapes: Mapping[str, Sequence[DimensionSize]]) -> str:
    return ";".join(f"{name}:{','.join(map(_size, shape))}" for name, shape in shapes.items())


def _size(size: DimensionSize) -> str:
    return f"{size[0]}~{size[1]}" if isinstance(size, tuple) else str(size)
