"""Graph kernel fusion: areas of operators become one operator each, with a generated kernel where
one can be built.

flags     what the user has asked for
select    a graph → areas, and where they are in it
lower     an area of elements → nests of loops
blocked   an area of convolutions or products → a program of steps
c         loops, and programs with what runs them → C text → machine code
library   the machine code as a file: who made it, where it lies, who uses it
fusion    all of it on one page; messages, stage_check and dump_as_text say what happened
"""
