"""What is known of types and shapes: onnx's inference, where it is overridden, and what follows from dimensions.

A pass asks a value: `value.shape`, `value.rank`, `value.elem_type`. The answer is in `value.proto_type`, which is never
a guess: a number or a symbol in a shape is true whenever the model runs, and what is unknown is None. Everything here
is about how `proto_type` is filled in, and when.

When: one rule (`inference.TypeInference`). All values are inferred at once, when the first question is asked. A commit
makes that outdated, unless what it put in is as well known as what it took out. A question about a value with an
unknown part then has all values inferred again, once per pass at most. A node on the tape is inferred by itself, as
soon as it is made; its inputs have types by then. Values in the bodies of functions have the types of whoever calls,
so nothing is known of them.

By whom: onnx (`onnx_inference`). It gets a copy of the model without large weights, in which every value has a name of
its own. What the model declares of its values is not copied: of operators that onnx knows it may say more than is true,
as the result of a Reshape has whatever shape the caller asks for.

What onnx has wrong (`overrides`): for some operators it says something else than what onnxruntime computes. For each of
these a function says what is certain of the output. If that is less than what onnx said, the node is hidden in the
copy: it makes its output from nothing, and what is certain is told.

What onnx misses (`elements`, `expressions`): it invents symbols ("unk__7") for dimensions that it cannot follow, and
loses many that follow from others. `elements` says which numbers and symbols a tensor of shape arithmetic holds, and
from these which shape a Reshape, Slice, Concat or Expand makes. Such an element may be a sum of products, batch·seq or
past + 1: `expressions` writes it into a string, so that it can stand in a shape like any other symbol, and two that are
written alike are equal. Walking through the nodes in order, inference learns in this way what an invented symbol stands
for, and puts it everywhere the symbol is; what holds in a subgraph holds there only.

One table has all that onnx has to be told: what is certain of hidden nodes, what was found out here, and what is
declared, or was known before a rewrite, of operators that onnx has not. After something new has come into it, onnx
infers again, because with that it may find more behind it. This comes to an end: each round hides a node or tells a
type that was not told before.

Symbols that one inference invented mean nothing to the next, so they carry its number. Where the next one knows nothing
of the shape of a value, what was known before stays.

Whether two shapes are equal, as far as is known, is asked in `equality`.
"""
