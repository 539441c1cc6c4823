"""The output of a run: the report object, the log, fusion_result.json, and tables and progress on
the terminal.
"""

from fusionc.report.fusion_result import write_fusion_result
from fusionc.report.plog import Plog
from fusionc.report.report import PassTotal, Report

__all__ = ["PassTotal", "Plog", "Report", "write_fusion_result"]
