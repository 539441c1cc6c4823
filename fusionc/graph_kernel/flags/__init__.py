"""The switches of graph kernel fusion: its flags, and MindSpore's names of stages and operators."""
