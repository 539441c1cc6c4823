"""Measure the run times of several forms of one model: in turn in one process, in several fresh
processes, on the same inputs.

Other users of a machine may slow it down by half for a second or a minute, for all forms alike.
Therefore the times of a round are compared only with each other. For two equal forms in 25
processes on such a machine, the ratio was then off by 1.1 % (root mean square, at most 2.7 %),
while the ratio of medians was off by 4.2 % (at most 27 %).
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

KERNELS = "-kernels"  # the end of the name of a model with kernels next to it
OPENVINO = "openvino"  # forms whose names begin with this run in OpenVINO instead of onnxruntime
# the precision that OpenVINO should use, by form; "" lets OpenVINO choose
PRECISIONS = {OPENVINO: "f32", "openvino_own": "", "openvino_bf16": "bf16"}
Times = dict[str, float]  # form of the model -> usual run time in seconds
Run = Callable[[dict[str, Any]], object]


def in_fresh_processes(
    models: Mapping[str, Path],
    inputs: Path,
    seconds: float,
    processes: int,
    one_thread: bool = False,
) -> list[Times]:
    """Measure each form for this many seconds in each process, on the inputs in an .npz file.

    Sessions have onnxruntime's default optimization level, and are created in another order in each
    process. Their threads spin during a run, as they do by default, but not between two runs,
    because that would take time from the other sessions. With one thread, processor time is
    measured instead of elapsed time: other work on the machine changes it only a little. The forms
    in PRECISIONS run in OpenVINO, configured for the least latency.
    """
    found = []
    for seed in range(processes):
        places = json.dumps({kind: os.fspath(path) for kind, path in models.items()})
        command = [
            sys.executable,
            __file__,
            os.fspath(inputs),
            str(seconds),
            str(seed),
            places,
            str(int(one_thread)),
        ]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found.append(json.loads(output.splitlines()[-1]))
    return found


def _onnxruntime(model: str, threads: int) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if Path(model).stem.endswith(KERNELS):
        import fusionc

        fusionc.register_kernels(options, model)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def _openvino(model: str, threads: int, precision: str) -> Run:
    import openvino

    hints = {"PERFORMANCE_HINT": "LATENCY"}
    hints |= {"INFERENCE_PRECISION_HINT": precision} if precision else {}
    own = {"INFERENCE_NUM_THREADS": threads} if threads else {}
    request = openvino.Core().compile_model(model, "CPU", hints | own).create_infer_request()
    return request.infer


def _opened(kind: str, model: str, threads: int) -> Run:
    if kind in PRECISIONS:
        return _openvino(model, threads, PRECISIONS[kind])
    return _onnxruntime(model, threads)


def _measure(
    inputs: str, seconds: float, seed: int, models: dict[str, str], one_thread: bool
) -> Times:
    import numpy

    feeds = dict(numpy.load(inputs))
    kinds = list(models)
    random.Random(seed).shuffle(kinds)
    clock = time.process_time if one_thread else time.perf_counter
    runs = {kind: _opened(kind, models[kind], int(one_thread)) for kind in kinds}
    times: dict[str, list[float]] = {kind: [] for kind in models}
    for run in runs.values():
        run(feeds)
    end = time.perf_counter() + seconds * len(models)
    while time.perf_counter() < end or len(times[kinds[0]]) < 5:
        for kind, run in runs.items():
            start = clock()
            run(feeds)
            times[kind].append(clock() - start)
    return usual_times(times)


def usual_times(times: Mapping[str, Sequence[float]]) -> Times:
    """The usual time of each form, from times of the same rounds: the median of its shares of the
    rounds, times the median round. The size of a round is the geometric mean over the forms.
    """
    rounds = [statistics.geometric_mean(one) for one in zip(*times.values(), strict=True)]
    usual = statistics.median(rounds)
    return {
        kind: usual
        * statistics.median(time / one for time, one in zip(values, rounds, strict=True))
        for kind, values in times.items()
    }


if __name__ == "__main__":
    inputs, seconds, seed, models, one_thread = sys.argv[1:]
    print(
        json.dumps(
            _measure(inputs, float(seconds), int(seed), json.loads(models), one_thread == "1")
        )
    )
