"""What a conversion can be asked for: one table, from which signature, command line, checks and
help follow.
"""

from fusionc.options.option_table import OPTIONS, Options
from fusionc.options.read_options import options_of, output_path

__all__ = ["OPTIONS", "Options", "options_of", "output_path"]
