"""enable_debug_mode: after every stage of graph kernel fusion, check the model of every cluster,
and compare it with the model before the stage.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx

from fusionc.errors import VerificationError
from fusionc.graph_kernel.flags.stages import CLUSTER, StagePass
from fusionc.verify import verify


class StageCheck:
    """Receives the model of a cluster before the first stage, and after every stage pass that
    changes the model.
    """

    def __init__(self) -> None:
        self._before: onnx.ModelProto | None = None

    def see(self, stage_pass: StagePass, model: onnx.ModelProto) -> None:
        """Check the model of a cluster, and compare it with the model before this stage pass.

        Raises VerificationError, which names the stage pass, if the model is invalid or the two
        models compute different results.
        """
        before = self._before
        self._before = model
        if stage_pass is CLUSTER or before is None:
            return
        with tempfile.TemporaryDirectory(prefix="fusionc-") as folder:
            files = [Path(folder, name) for name in ("before.onnx", "after.onnx")]
            for file, proto in zip(files, (before, model), strict=True):
                file.write_bytes(proto.SerializeToString())
            try:
                onnx.checker.check_model(str(files[1]), full_check=True)
                found = verify(*files, levels=["disabled"])
                problem = found.summary if found.status == "different" else ""
            except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
                problem = " ".join(str(error).split())
        if problem:
            operators = "_".join(node.op_type for node in before.graph.node)
            raise VerificationError(
                (
                    f"graph kernel pass {stage_pass.full_name} changes what a cluster computes: "
                    f"{problem}"
                ),
                where=f"the cluster {operators}",
                hint="nothing was written; use --graph_kernel_flags "
                f'"--disable_pass={stage_pass.names[0]}"',
                code="E13028",
            )
