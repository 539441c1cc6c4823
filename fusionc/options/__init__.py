"""The options of a conversion, in one table. The command line, the checks and the help are derived
from this table.
"""

from fusionc.options.option_table import OPTIONS, Options
from fusionc.options.read_options import options_of, output_path

__all__ = ["OPTIONS", "Options", "options_of", "output_path"]
