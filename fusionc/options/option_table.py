"""The table of options. Each option is described here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fusionc.options import option_kinds as kinds
from fusionc.options.option import Option, OptionGroup, option, option_of
from fusionc.report.plog import LEVELS as LOG_LEVELS
from fusionc.requested.dimension_size import DimensionSize
from fusionc.requested.float16.precision_modes import MODES, OLDER, ORIGIN
from fusionc.runtime.optimizers import DEFAULT_LEVELS, LEVELS

INPUT_FILES = (
    "an .npz file with the names of the inputs, a folder with an .npy file for each input, or a "
    "folder with input_0.pb, input_1.pb, …; for several samples, a folder of such files or "
    "folders, such as ONNX's test sets."
)


@dataclass(frozen=True)
class Options:
    """The options of one conversion, checked and typed."""

    source: Path = option(
        kinds.FILE,
        OptionGroup.FILES,
        "The ONNX model to read.",
        name="model",
        reads="the model itself",
        give="the path of a model; fusionc.optimize takes a model in memory",
        is_required=True,
    )
    destination: Path = option(
        kinds.FILE,
        OptionGroup.FILES,
        "The model to write, with or without .onnx. Default: <model>_fusionc.onnx in the current "
        "folder.",
        name="output",
        short="-o",
        writes=True,
        is_required=True,
    )
    fusion_switch_file: Path | None = option(
        kinds.FILE,
        OptionGroup.PASSES,
        "Which passes are on and off, as JSON.",
        reads="the switch file",
        give='the path of a switch file; optimization_switch takes "P:on;Q:off"',
    )
    optimization_switch: str | None = option(
        kinds.TEXT,
        OptionGroup.PASSES,
        "Single switches, such as P:on;Q:off; they override those of the switch file.",
        metavar='"P:on;Q:off"',
        give='"P:on;Q:off"',
    )
    oo_level: str = option(
        kinds.CHOICE,
        OptionGroup.PASSES,
        "O1: no fusion; only fold constants and known sizes, and remove dead branches and nodes. "
        "O3: all passes. A switch that names a pass overrides --oo_level, --oo_constant_folding "
        "and --oo_dead_code_elimination.",
        choices=("O1", "O3"),
        default="O3",
    )
    oo_constant_folding: bool = option(
        kinds.SWITCH, OptionGroup.PASSES, "Fold constants and known sizes.", default=True
    )
    oo_dead_code_elimination: bool = option(
        kinds.SWITCH, OptionGroup.PASSES, "Remove branches that are never taken.", default=True
    )
    pattern_fusion_pass: bool = option(
        kinds.SWITCH,
        OptionGroup.PASSES,
        "Run your own passes, and the passes that correspond to those of TorchAir.",
        default=True,
    )
    custom_passes: tuple[Path, ...] = option(
        kinds.FILES,
        OptionGroup.PASSES,
        "A Python file with your own passes.",
        reads="a file of custom passes",
        give='a list of files: ["my_passes.py"]',
        default=(),
    )
    keep_nodes: Path | str | Sequence[str] | None = option(
        kinds.NAMES_OR_FILE,
        OptionGroup.PASSES,
        "Nodes that no pass changes or removes, and that no generated kernel computes: names "
        "separated by semicolons, or a file with a name in each line. * in a name means any "
        "characters, and encoder/ means all nodes of this scope.",
        metavar='"conv1;encoder/"|FILE',
        reads="the file with names of nodes",
        give='a list of names, "conv1;encoder/", or the path of a file with a name in each line',
    )
    input_shape: Mapping[str, Sequence[DimensionSize]] | None = option(
        kinds.SIZES,
        OptionGroup.REQUEST,
        "Fix the sizes of inputs, and the sizes that follow from them. -1 or a range (1~8) leaves "
        "a dimension without a fixed size.",
        aliases=("--input_shape_range",),
        give='{"x": (1, 3, -1, (64, 256))}',
    )
    free_dim: Mapping[str, Mapping[int, str]] | None = option(
        kinds.AXES,
        OptionGroup.REQUEST,
        "Replace fixed sizes of inputs, and the sizes that follow from them, by symbols. x:0,2 "
        "names an input and its axes, x:0=batch also names the symbol. If a part of the model "
        "requires a fixed size, the error names that part.",
        metavar='"x:0;mask:0"',
        give='{"x": (0, 2)} or {"x": {0: "batch"}}',
    )
    out_nodes: str | Sequence[str] | None = option(
        kinds.NAMES,
        OptionGroup.REQUEST,
        "The outputs of the result: each is the name of a node and the number of one of its "
        "outputs (conv1:0), or the name of a value. Nodes that these outputs do not need are left "
        "out.",
        metavar='"conv1:0;relu2:1"',
        give='"conv1:0;logits", or a list of names',
    )
    insert_op_conf: Path | None = option(
        kinds.FILE,
        OptionGroup.REQUEST,
        "AIPP, the preprocessing of images, as a configuration file of ATC in static mode. It "
        "becomes operators before the inputs that the file names. These inputs then take images of "
        "uint8 in the layout (N, H, W, C), or (N, H·3/2, W, 1) for YUV420SP_U8. --input_shape "
        "still gives the sizes of the inputs that the model has; --inputs and --verify_shape are "
        "for the images.",
        reads="the configuration file of AIPP",
    )
    dynamic_batch_size: Sequence[int] | None = option(
        kinds.INTEGERS,
        OptionGroup.REQUEST,
        "2 to 100 batch sizes for the inputs whose first dimension is -1 in --input_shape. This "
        "dimension is open in the result, and the result is verified at each of the sizes. Give "
        "at most one of --dynamic_batch_size, --dynamic_image_size and --dynamic_dims.",
        give="a list of sizes: [1, 2, 4]",
    )
    dynamic_image_size: Sequence[Sequence[int]] | None = option(
        kinds.PROFILES,
        OptionGroup.REQUEST,
        "As --dynamic_batch_size, for height and width: 2 to 100 pairs, separated by semicolons.",
        give="a list of pairs: [[224, 224], [448, 448]]",
    )
    dynamic_dims: Sequence[Sequence[int]] | None = option(
        kinds.PROFILES,
        OptionGroup.REQUEST,
        "As --dynamic_batch_size, for all dimensions that are -1, in their order: 2 to 100 lists "
        "of sizes, separated by semicolons.",
        metavar='"1,128;2,256"',
        give="a list of lists of sizes: [[1, 128], [2, 256]]",
    )
    input_format: str | None = option(
        kinds.CHOICE,
        OptionGroup.REQUEST,
        "NHWC: inputs that are images take the layout (N, H, W, C) instead of (N, C, H, W). "
        "--input_shape still gives sizes in the layout of the model; --inputs and --verify_shape "
        "are for the new layout. NCHW, NCDHW and ND are ATC's other values, and change nothing.",
        choices=("NCHW", "NHWC", "NCDHW", "ND"),
    )
    target: str = option(
        kinds.CHOICE,
        OptionGroup.REQUEST,
        "The runtime that the result is for; onnx means any.",
        choices=("onnxruntime-cpu", "onnx"),
        default="onnxruntime-cpu",
    )
    target_opset: int | None = option(
        kinds.OPSET,
        OptionGroup.REQUEST,
        "Raise the model to opset N first, so that passes can use operators that older opsets "
        "lack. Default: keep the opset of the model.",
        give="a number, or None for the opset of the model",
    )
    external_weight: int | None = option(
        kinds.CHOICE,
        OptionGroup.STORAGE,
        "Store the weights in the model (0) or in one file next to it (1). 2, which ATC also has, "
        "means the same as 1. Default: next to the model only if they are too large for it.",
        choices=(0, 1),
        metavar="0|1",
        give="0, 1 or None",
    )
    output_type: str | Mapping[str, str] | None = option(
        kinds.TYPES,
        OptionGroup.STORAGE,
        "Convert all outputs, or the named outputs, to FP32, FP16, DOUBLE, INT8 to INT64, UINT8 to "
        "UINT64 or BOOL.",
        metavar='FP16|"conv1:0:FP16"',
        give='"FP16", "conv1:0:FP16;logits:FP32" or {"logits": "FP32"}',
    )
    verify_shape: Mapping[str, tuple[int, ...]] | None = option(
        kinds.SHAPES,
        OptionGroup.VERIFICATION,
        "Sizes of inputs for the verification, if the sizes that fusionc chooses do not suit. Does "
        "not change the model.",
        give='{"x": (1, 3, 224, 224)}',
    )
    inputs: Path | None = option(
        kinds.FILE,
        OptionGroup.VERIFICATION,
        "Input values to run the models with, in addition to fusionc's random values: "
        f"{INPUT_FILES} If the files also record outputs, these are compared, too.",
        metavar="PATH",
        reads="the inputs",
        give="an .npz file, which numpy.savez(path, **values) writes, or a folder of samples",
    )
    custom_op_library: tuple[Path, ...] = option(
        kinds.FILES,
        OptionGroup.VERIFICATION,
        "A shared library with operators that the models use and onnxruntime lacks. The library is "
        "loaded, and its code runs.",
        metavar="LIB",
        reads="a library of custom operators",
        give='a list of files: ["libcustom.so"]',
        default=(),
    )
    runtime_level: tuple[str, ...] = option(
        kinds.CHOICES,
        OptionGroup.VERIFICATION,
        "The levels of onnxruntime's own optimizers at which the result is run. In addition, both "
        "models always run with these optimizers disabled, and this comparison decides whether the "
        "result is right. If only another level shows a difference, onnxruntime's optimizers are "
        "at fault: the report names them and says how to switch them off.",
        choices=LEVELS,
        default=DEFAULT_LEVELS,
    )
    verify_budget: float | None = option(
        kinds.AMOUNT,
        OptionGroup.VERIFICATION,
        "How many billions of elements a verification may compute in all its runs; 32 "
        "multiplications of a matrix product count as one element. fusionc chooses input sizes "
        "that fit the budget. Runs that exceed the budget are left out: the result is then "
        "verified in part. 0: no limit. Default: 30, or 2 for each thousand nodes, and 512 MiB of "
        "values at once in addition to the size of the weights.",
        give="billions of elements, 0 for no limit, or None",
    )
    timeout: float | None = option(
        kinds.SECONDS,
        OptionGroup.VERIFICATION,
        "How long one step of onnxruntime may take: loading a model, running it once. 0: no "
        "limit. Default: 300.",
        give="seconds, 0 for no limit, or None",
    )
    enable_graph_kernel: bool | None = option(
        kinds.OPEN_SWITCH,
        OptionGroup.KERNELS,
        "Graph kernel fusion: combine operators that fit together into one operator, and generate "
        "a kernel for it in <output>.kernels.so.",
    )
    graph_kernel_flags: str | None = option(
        kinds.WORDS,
        OptionGroup.KERNELS,
        "Flags of graph kernel fusion, as in MindSpore's MS_DEV_GRAPH_KERNEL_FLAGS. Every flag "
        "except --enable_pass and --disable_pass switches graph kernel fusion on. If "
        "--enable_graph_kernel=false is given, only the flag --opt_level switches it on. "
        "docs/graph_kernel.md lists the flags; for example, --disable_cluster_ops=Exp,Log keeps "
        "these operators out of kernels.",
        metavar='"--K=V …"',
        give='"--opt_level=2"',
    )
    precision_mode_v2: str | None = option(
        kinds.CHOICE,
        OptionGroup.KERNELS,
        "The types in which the result computes. origin: those of the model; this is the default "
        "here, while ATC's is fp16. fp16: everything that can be is float16. mixed_float16: as "
        "fp16, but nodes that would change an output too much on the inputs of --inputs stay in "
        "float32. cube_fp16in_fp32out: convolutions and matrix products round their inputs to "
        "float16, and sum in float32. The inputs and outputs of the model keep their types. "
        "mixed_bfloat16: convolutions and matrix products in generated kernels multiply bfloat16 "
        "values and add in float32, on processors that have instructions for this; everything in "
        "the model file stays float32. Needs --enable_graph_kernel.",
        choices=MODES,
    )
    precision_mode: str | None = option(
        kinds.CHOICE,
        OptionGroup.KERNELS,
        "ATC's older names of precisions: must_keep_origin_dtype is origin, force_fp16 is fp16, "
        "allow_mix_precision and allow_mix_precision_fp16 are mixed_float16, "
        "allow_mix_precision_bf16 and allow_fp32_to_bf16 are mixed_bfloat16. allow_fp32_to_fp16: "
        "convolutions and matrix products compute in float16. Not together with "
        "--precision_mode_v2.",
        choices=tuple(OLDER),
    )
    precision_error: float | None = option(
        kinds.SHARE,
        OptionGroup.KERNELS,
        "How much a lower precision may change an output on the given inputs, as a share of the "
        "largest value of the output. Nodes that would exceed this limit stay in float32 (with "
        "mixed_bfloat16, this applies to convolutions and matrix products). With fp16, the "
        "conversion ends with an error instead. Default: every change is allowed that keeps a "
        "cosine similarity of at least 0.999.",
        give="a number above 0 and at most 1, or None",
    )
    keep_dtype: Path | None = option(
        kinds.FILE,
        OptionGroup.KERNELS,
        "A file that lists nodes which keep their type when a lower precision is chosen. Each line "
        "has the name of a node, or OpType::Type for all nodes of one operator type.",
        reads="the names of nodes that keep their type",
    )
    customize_dtypes: Path | None = option(
        kinds.FILE,
        OptionGroup.KERNELS,
        "A file that lists the types of single nodes: each line is "
        "NAME::InputDtype:float16,float16,OutputDtype:float16, or begins with OpType::Type for all "
        "nodes of one operator type. The file overrides --keep_dtype and the precision. If the "
        "inputs are float16 and the outputs float32, the inputs are rounded to float16, and the "
        "node computes in float32.",
        reads="the types of single nodes",
    )
    modify_mixlist: Path | None = option(
        kinds.FILE,
        OptionGroup.KERNELS,
        "With mixed_float16: a JSON file that moves operators between the lists of operators in "
        "float32 (black-list), in float16 (white-list), and in the type of the node before them "
        '(gray-list): {"black-list": {"to-add": ["SoftmaxV2"]}}. The file names Ascend\'s '
        "or ONNX's operators. With mixed_bfloat16, operators added to the black list stay in "
        "float32.",
        reads="the lists of operators",
    )
    trust_kernels: bool = option(
        kinds.FLAG,
        OptionGroup.STORAGE,
        "If generated kernels lie next to the model, load them even if another installation built "
        "them, and let the result use them, too.",
        default=False,
    )
    verify: bool = option(
        kinds.NEGATED_FLAG,
        OptionGroup.VERDICT,
        "Do not run both models to compare their outputs.",
        flag="--no-verify",
        default=True,
    )
    on_mismatch: str = option(
        kinds.CHOICE,
        OptionGroup.VERDICT,
        "What happens if the verification finds a difference. fail: write nothing. rollback: leave "
        "out the rewrites at fault and name them.",
        choices=("fail", "rollback"),
        default="fail",
    )
    check_rewrites: bool = option(
        kinds.FLAG,
        OptionGroup.VERDICT,
        "Before each rewrite, run the original nodes and their replacement side by side. If they "
        "differ, name the rewrite, and do what --on_mismatch says.",
        default=False,
    )
    require_verification: bool = option(
        kinds.FLAG,
        OptionGroup.VERDICT,
        "Write nothing if nothing of the result can be verified, for example because onnxruntime "
        "lacks an operator of the model. The exit code is 4 with and without this option.",
        default=False,
    )
    dump_graph: Path | None = option(
        kinds.FILE,
        OptionGroup.RECORDS,
        "Write the graph into this folder after every pass that changed it. An earlier dump in the "
        "folder is removed.",
        metavar="DIR",
        writes=True,
        give="the path of a folder",
    )
    report: Path | None = option(
        kinds.FILE,
        OptionGroup.RECORDS,
        "Write an HTML page that shows drawings of each rewrite, operators, sizes, and the time "
        "per operator before and after. Measuring these times takes a few more seconds. For many "
        "models, give a folder, which gets a page for each model. Needs pip install "
        "'fusionc[report]'.",
        writes=True,
        give="the path of the page to write",
    )
    ready: bool = option(
        kinds.FLAG,
        OptionGroup.RECORDS,
        "Also write the result in its ready form, as onnxruntime has it in memory after loading: "
        "optimized, with weights that are packed for this processor and mapped from the file. If "
        "this form fits the machine, fusionc.session loads it in less time and with less memory.",
        default=False,
    )
    export_compile_stat: int = option(
        kinds.CHOICE,
        OptionGroup.RECORDS,
        "Write fusion_result.json, the counts of each pass (1 or 2), or do not (0).",
        other_default=1,
        choices=(0, 1, 2),
        give="0, 1 or 2",
        default=0,
    )
    log: str | None = option(
        kinds.CHOICE,
        OptionGroup.RECORDS,
        "Level of the log; debug also shows the traceback of a failure. Default: info.",
        choices=LOG_LEVELS,
    )
    progress: Callable[[str], None] = option(
        kinds.FUNCTION,
        OptionGroup.RECORDS,
        "Called at each step with a few words that name the step.",
        flag=None,
        give="a function that takes a text: print",
        default=kinds.say_nothing,
    )

    @property
    def precision(self) -> str:
        """The mode that --precision_mode_v2 or --precision_mode asks for."""
        older = None if self.precision_mode is None else OLDER[self.precision_mode]
        return self.precision_mode_v2 or older or ORIGIN

    def notices(self) -> list[str]:
        """Notices about the options that have no effect because verification is off, and about the
        name of the output if it may surprise the user.
        """
        idle = [] if self.verify or self.report or self.inputs is None else ["--inputs"]
        if not self.verify and not self.check_rewrites and self.on_mismatch != "fail":
            idle.append("--on_mismatch")
        notices = [f"{name} has no effect without verification" for name in idle]
        if self.destination.name.lower().endswith(".om.onnx"):  # .om is what ATC writes
            notices.append(f"the result is an ONNX model, so its name is {self.destination.name}")
        return notices


# the options by field name
OPTIONS: Mapping[str, Option] = {one.name: option_of(one) for one in fields(Options)}
# the fields that hold the path of a file or folder that a conversion writes
PLACES = frozenset(name for name, one in OPTIONS.items() if one.writes)


def paths_in(value: Any) -> Sequence[Path]:
    """The paths in the value of a field: one, several or none."""
    if isinstance(value, Path):
        return (value,)
    return value if isinstance(value, tuple) and value and isinstance(value[0], Path) else ()
