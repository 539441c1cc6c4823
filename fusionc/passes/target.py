"""What a pass asks about the runtime that the model is made for."""

from fusionc.rewrite import Match, refuse


def require_onnxruntime(m: Match) -> None:
    """Refuses for other targets what pays, as far as anybody has measured, in onnxruntime alone."""
    target = m.graph.model.target
    if target != "onnxruntime-cpu":
        refuse(f"for target {target} nothing is known to be gained")
