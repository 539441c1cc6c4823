"""Graph kernel fusion as a conversion runs it: with the kernels, with the passes, compared, and told of."""
