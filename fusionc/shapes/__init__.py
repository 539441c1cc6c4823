"""Element types, shapes, and the elements of small integer tensors, inferred before a model runs.

Users. Passes read the types of an edge (`value.shape`, `value.rank`, `value.elem_type`). The edge
gets them from `model.types`, which is a `TypeInference`. Passes compare shapes with `equality`, and
read the elements of shape arithmetic with `elements`. The tape infers the type of each new node
(`infer_node`): a rewrite can then read the types of its new values, and onnx can reject a wrong
node. The engine reports the start of each pass and the changes of each commit. Other rooms, for
example those for kernels and for requested sizes, build a model of their own and read its types in
the same way. Values in the bodies of functions have no known types, because these depend on the
caller.

Types. A dimension is a number, a symbol, or None. A shape is None if even the rank is unknown.
Dimensions with the same symbol are always equal when the model runs. A symbol is a symbol of the
model ("batch"), an invented symbol for an unknown dimension ("unk__7"), or an expression of symbols
("batch·seq", "past + 1": see `expressions`, and `operators.polynomials` for their algebra). Nothing
is guessed. The declared type of a value counts only if onnx does not know the operator. In other
cases the declaration may be wrong: for example, the declared shape after a Reshape does not hold
for all inputs of the Reshape. The inputs of a subgraph have no declared shapes, because a Loop may
change them.

Sources. The nodes are inferred one by one, in topological order. Subgraphs are inferred before the
node that contains them. For each dimension `inference` takes the most certain of three sources:

1. onnx's own rule for the operator (`onnx_inference`). The rule gets the types of the inputs, the
   known elements of small inputs, and the output types of subgraphs. A call of a model-local
   function is inferred through the function. onnx and onnxruntime sometimes disagree: for example,
   the last window of a pool may be entirely in the padding, or Resize rounds. In such cases
   `overrides` makes the uncertain dimension unknown.
2. Shape arithmetic (`elements`). Exporters compute the target shape of a Reshape from the
   dimensions of other values. onnx propagates numbers, but it loses symbols when two of them are
   added or multiplied, and it does not know onnxruntime's own operators. Therefore the elements of
   integer vectors are kept as expressions, in addition to the types. The shapes that follow from
   them are computed here.
3. The type that was known before.

Lifetime. Types and elements are kept in the edges and never discarded. A rewrite does not change
the meaning of a value, so known types stay true. More can become known, for example if a shape
becomes a constant, or if known operators replace an operator that onnx does not know. A commit
marks the affected values as stale (`note_commit`). A refresh infers again the nodes that read or
produce a stale value. If more becomes known about a result, the result becomes stale in turn.
Usually a new value has the same known type as the replaced value, and nothing becomes stale.

Cost. The first request infers all nodes. A later refresh infers few nodes, but it still iterates
over all nodes. Therefore types are refreshed at most once during a pass, and only if the pass reads
a value whose type is not fully known.
"""
