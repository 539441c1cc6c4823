"""Graph kernel fusion: areas of operators become one operator each, with a generated kernel where one can be built."""
