"""`python -m fusionc` is the command `fusionc`."""

from fusionc.cli import main

if __name__ == "__main__":
    main(prog_name="fusionc")
