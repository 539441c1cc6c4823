"""Graph kernel fusion replaces each area (a group of operators) by one operator. If a kernel can be
generated for an area, the kernel computes this operator.

flags     the user's flags
select    a graph → areas and their locations
lower     an area of elementwise operators, reductions and data movement → nests of loops
blocked   an area of convolutions or matrix products → a program of steps
c         loops, and programs with their runtime → C text → machine code
library   the machine code as a file: who compiled it, where it is, which sessions use it
fusion    all of this in order, on one page; messages, stage_check and dump_as_text report on it
"""
