"""Element types, shapes, and the elements of small integer tensors, inferred before a model runs.

Users. Passes ask an edge (`value.shape`, `value.rank`, `value.elem_type`); the edge asks
`model.types`, which is a `TypeInference`. They compare shapes by `equality`, and ask `elements` for
the elements of shape arithmetic. The tape asks for the type of each node that it makes
(`infer_node`), so that a rewrite can look at what it has built, and onnx can reject it. The engine
says when a pass begins and what a commit has changed. The clusters of kernels, the sizes that a
user asks for and the precheck build a model of their own and ask it in the same way. Values in the
bodies of functions have the types of the caller, so their types are unknown.

Answers. A dimension is a number, a symbol, or None; a shape is None if even the rank is unknown.
Two equal symbols are always equal when the model runs, whichever sizes it is given. A symbol is the
model's own ("batch"), an invented one ("unk__7", for an unknown dimension), or an expression of
both ("batch·seq", "past + 1": see `expressions`, and `operators.polynomials` for their algebra).
Nothing is guessed. The types that a model declares for its values count only if onnx does not know
the operator; elsewhere they may say more than is true, since the result of a Reshape has whatever
shape the caller asks for. For the same reason the inputs of a subgraph have no declared shapes: a
Loop may change them.

Sources. The nodes are asked one by one, in topological order, subgraphs before the node that holds
them. For each dimension `inference` takes the most certain name of three sources:

1. onnx's own rule for the operator (`onnx_inference`). It sees the types of the inputs, the known
   elements of small ones, and the types that a subgraph ends in; a call of a model-local function
   is inferred through the function. onnx and onnxruntime sometimes disagree: then `overrides` takes
   back what is uncertain. A pool's last window may lie in the padding, a Resize rounds, an Einsum
   broadcasts.
2. Shape arithmetic (`elements`). Exporters compute the target of a Reshape from the dimensions of
   other values. onnx follows numbers there, but loses symbols as soon as two of them are added or
   multiplied, and it does not know onnxruntime's own operators. So the elements of integer vectors
   are kept next to the types, as expressions, and the shapes made of them are computed here.
3. What was known before.

Lifetime. Types and elements are kept in the edges and never thrown away: a rewrite does not change
the meaning of a value, so knowledge of it stays true and only grows. More can become known: a shape
became a constant, or an operator that onnx does not know became others that it does. So a commit
marks the values after which this may happen as stale (`note_commit`), and a refresh asks the nodes
that read or make a stale value again; if a node learns something, its results become stale in turn.
A commit that replaces a value by an equally well known one marks nothing, which is the common case.

Cost. The first question asks all nodes. Later a refresh walks over all nodes as well, though it
asks few, so it happens at most once in a pass, and only when that pass meets a value with an
unknown part.
"""
