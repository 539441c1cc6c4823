"""fusion_result.json in the exact form of CANN: counters are strings, keys are sorted, and passes
that never matched are absent.

What fusionc adds to this form is under one key, "fusionc":

left_out_times       for each pass and graph, the number of rewrites that were left out because the
                     result was wrong with them
verification         how far each output of the result is from that of the original model, for each
                     level of onnxruntime's optimizers
verification_budget  what the verification cost; "verified in part" means that some inputs did not
                     run, to save cost
notices              the messages for the user, such as the unknown names in a switch file
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusionc.disk.paths import require_no_stream
from fusionc.disk.small_files import replace_text
from fusionc.report.environment import variable
from fusionc.report.report import totals

if TYPE_CHECKING:
    from fusionc.rewrite.log import Commit, PatternCount
    from fusionc.verify.budget import Budget
    from fusionc.verify.output_errors import OutputErrors

_FILE_NAME = "fusion_result.json"


def write_fusion_result(
    counts: list[PatternCount],
    export_compile_stat: int,
    notices: list[str],
    left_out: Iterable[Commit] = (),
    outputs: Sequence[OutputErrors] = (),
    budget: Budget | None = None,
) -> Path | None:
    """Write the counts of passes that matched, and return the path of the file. Return `None` if no
    pass matched, if `export_compile_stat` is 0, or if the file cannot be written. `left_out` has
    the rewrites that were left out, `outputs` the numerical differences of each output, `budget`
    the cost of the verification, and `notices` the messages for the user.

    The file is ./fusion_result.json, or FE/<process id>/fusion_result.json in $FUSIONC_WORK_PATH or
    $ASCEND_WORK_PATH. An older file is removed. If the file cannot be written, this function only
    adds a notice to `notices`, because missing statistics should not fail a conversion.
    """
    if export_compile_stat == 0:
        return None
    work_path = variable("WORK_PATH")
    folder = Path(work_path, "FE", str(os.getpid())) if work_path else Path()
    file = folder / _FILE_NAME
    content: dict[str, Any] = {**_content(counts)}
    own = {
        "left_out_times": _left_out_times(left_out),
        "notices": list(notices),
        "verification": _verification(outputs),
        "verification_budget": _budget(budget) if budget else {},
    }
    if content and any(own.values()):
        content["fusionc"] = {key: value for key, value in own.items() if value}
    try:
        require_no_stream(file)
        if not content:
            file.unlink(missing_ok=True)
            return None
        folder.mkdir(parents=True, exist_ok=True)
        replace_text(file, json.dumps(content, indent=4, sort_keys=True) + "\n")
    except OSError as error:
        notices.append(f"{file} is not written: {error.strerror}")
        return None
    return file


def _graph_key(graph_id: int) -> str:
    return f"session_and_graph_id_0_{graph_id}"


def _left_out_times(left_out: Iterable[Commit]) -> dict[str, dict[str, str]]:
    content: dict[str, dict[str, str]] = {}
    times = Counter((commit.graph_id, commit.pass_name) for commit in left_out)
    for (graph_id, name), number in times.items():
        content.setdefault(_graph_key(graph_id), {})[name] = str(number)
    return content


def _content(counts: list[PatternCount]) -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    by_graph: dict[int, list[PatternCount]] = {}
    for count in counts:
        by_graph.setdefault(count.graph_id, []).append(count)
    content: dict[str, dict[str, dict[str, dict[str, str]]]] = {}
    for graph_id, counts_of_graph in by_graph.items():
        for total in totals(counts_of_graph):
            if not total.matched:
                continue
            graph = content.setdefault(_graph_key(graph_id), {})
            counters = {"effect_times": str(total.effected), "match_times": str(total.matched)}
            if total.kind == "UBFusion":
                graph.setdefault("ub_fusion", {})[total.name] = counters | {
                    "repository_hit_times": "0"
                }
            else:
                graph.setdefault("graph_fusion", {})[total.name] = counters
    return content


def _budget(budget: Budget) -> dict[str, str]:
    return {
        "verified": "verified in part" if budget.left_out else "verified",
        "elements": str(budget.spent),
        "most_elements": str(budget.elements),
        "bytes": str(budget.most_bytes),
        "most_bytes": str(budget.bytes),
        "compared": str(budget.compared),
        "left_out": "; ".join(budget.left_out),
    }


def _verification(outputs: Sequence[OutputErrors]) -> dict[str, dict[str, dict[str, str]]]:
    content: dict[str, dict[str, dict[str, str]]] = {}
    for row in outputs:
        content.setdefault(row.output, {})[row.level] = {
            "samples": str(row.samples),
            "max_abs": f"{row.max_abs:.9g}",
            "max_rel": f"{row.max_rel:.9g}",
            "cosine": f"{row.cosine:.12g}",
            "worst_at": row.worst,
        }
    return content
