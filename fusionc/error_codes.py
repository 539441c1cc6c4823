"""The codes of errors: what each means, and what to do. The codes and their meaning are ATC's."""

from __future__ import annotations

CODES = {
    "E10001": (
        "The value of an option is not allowed, or it does not fit the model.",
        "The message names the option and the values that are possible.",
    ),
    "E10010": (
        "The log level is unknown.",
        "Give --log, or the environment variable that the message names, one of the levels listed.",
    ),
    "E10016": (
        "The model has no input, node or value of this name.",
        "The message lists the names that the model has, or the nearest one.",
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
        "The model is not valid ONNX.",
        "The message says which part is not. Export the model again.",
    ),
    "E13028": (
        "The result differs from the model, or onnxruntime cannot load it. Nothing was written.",
        "The message names the rewrite at fault and the switch that turns its pass off. "
        "`fusionc bisect` finds all of them; `--on_mismatch rollback` leaves them out.",
    ),
    "E19010": (
        "--mode 3 found operators that the target cannot run.",
        "The file of --check_report names each operator and the cause.",
    ),
    "E19999": (
        "A failure that has no code of its own.",
        "The message says what failed. If it is a defect of fusionc, it asks you to report it.",
    ),
    "E20007": (
        "A pass failed, did not end, or made an invalid graph.",
        "Switch the pass off; the message gives the switch. Correct a pass of your own.",
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
