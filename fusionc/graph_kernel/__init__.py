"""Graph kernel fusion turns each area of operators into one operator, with a generated kernel if
one can be built.

flags     the user's flags
select    a graph → areas and their locations
lower     an area of elements → nests of loops
blocked   an area of convolutions or products → a program of steps
c         loops, and programs with their runtime → C text → machine code
library   the machine code as a file: which installation made it, where it is, which sessions use it
fusion    all of this in order, on one page; messages, stage_check and dump_as_text report on it
"""
