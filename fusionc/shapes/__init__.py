"""What is known of the values of a model before it runs: element types, shapes, and what small
integers hold.

Who asks. Passes ask an edge (`value.shape`, `value.rank`, `value.elem_type`); the edge asks
`model.types`, which is a `TypeInference`. They compare what they got by `equality`, and ask
`elements` what a tensor of shape arithmetic holds. The tape asks for the type of each node that it
makes (`infer_node`), so that a rewrite can look at what it has built, and so that onnx can reject
it. The engine says when a pass begins and what a commit has changed. The clusters of kernels, the
sizes that a user asks for and the precheck build a model of their own and ask it in the same way.
Values in the bodies of functions have the types of whoever calls, so nothing is known of them.

What an answer is. A dimension is a number, a symbol, or None; a shape is None where not even the
rank is known. Two equal symbols are always equal when the model runs, whichever sizes it is given.
A symbol is the model's own ("batch"), an invented one ("unk__7", for a dimension of which nothing
else is known), or an expression of both ("batch·seq", "past + 1": see `expressions`). Nothing is
guessed. What the model itself declares of its values counts only where onnx does not know the
operator; elsewhere it may say more than is true, since the result of a Reshape has whatever shape
the caller asks for. For the same reason the inputs of a subgraph have no declared shapes: a Loop
may change them.

How it is found. The nodes are asked one by one, in topological order, subgraphs before the node
that holds them. For each node there are three sources, and `inference` takes of each dimension the
name that says most:

1. onnx's own rule for the operator (`onnx_inference`). It sees the types of the inputs, the
   elements of those that are small and known, and of a subgraph the types that it ends in; a call
   of a model-local function is inferred through the function. What onnx says is not always what
   onnxruntime computes: where the two disagree, `overrides` takes back what is not certain. There a
   pool's last window lies in the padding, a Resize rounds, an Einsum broadcasts.
2. Shape arithmetic (`elements`). Exporters compute the target of a Reshape from the dimensions of
   other values. onnx follows numbers there, but loses symbols as soon as two of them are added or
   multiplied, and it knows nothing of onnxruntime's own operators. So the elements of vectors of
   integers are kept beside the types, as expressions, and the shapes that are made of them are
   worked out here.
3. What was known before.

What is kept, and when it is thrown away. Types and elements are kept in the edges, and never thrown
away: a rewrite does not change what a value is, so what was true of it stays true, and knowledge
only grows. What changes is that more can be known: a shape became a constant, an operator that onnx
does not know became others that it does. So a commit marks the values behind which this may be so
as stale (`note_commit`), and a refresh asks the nodes that read or make a stale value again; a node
that learned something makes its results stale in turn. A commit that puts a value as well known in
the place of another one marks nothing, which is the common case.

When it is asked. The first question asks all nodes. Later a refresh walks over all nodes as well,
though it asks few, so it happens at most once in a pass, and only when that pass meets a value with
an unknown part.
"""
