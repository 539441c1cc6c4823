from dataclasses import replace

from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    equation: str, a: str, b: str = "", constants: str = "", more: str = "", inputs: str = ""
) -> str:
    """Inputs given as their dimensions; a rank that the text cannot know comes from the equation."""
    result = equation.split("->")[1] if "->" in equation else "ik"
    y = ",".join(f"Y{i}" for i in range(len(result.replace(" ", "").replace("...", "z"))))
    given = f"float[{a}] a" + (f", float[{b}] b" if b else "")
    operands = "a, b" if b or constants else "a"
    weights = f" <{constants}>" if constants else ""
    return f'agraph ({given}{inputs}) => (float{y and f"[{y}]"} y{more}){weights} {{ y = Einsum <equation = "{equation}"> ({operands}) }}'


EQUAL = "the dimensions are not known to be equal"
UNKNOWN = "more than one dimension is unknown"
STAYS = [
    Stays(
        "an ellipsis", graph("...ij,...jk->...ik", "2,3,4", "2,4,5"), "the equation has an ellipsis"
    ),
    Stays("a diagonal", graph("ii->i", "3,3"), "the equation takes a diagonal, or lacks an input"),
    Stays(
        "an axis of the result that no input has",
        graph("ij->ia", "3,3"),
        "an axis of the result is in no input",
        valid=False,
    ),
    Stays("dimensions that may be broadcast", graph("ij,jk->ik", "N,M", "K,5"), EQUAL),
    Stays("a batch that is broadcast", graph("bij,bjk->bik", "1,3,4", "2,4,5"), EQUAL),
    Stays("no elements", graph("ij->ji", "0,3"), EQUAL),
    Stays(
        "three values",
        graph("ij,jk,kl->il", "2,3", "3,4")
        .replace("(float[2,3] a", "(float[4,5] c, float[2,3] a")
        .replace("(a, b)", "(a, b, c)"),
        "the Einsum has more than two inputs",
    ),
    Stays(
        "elements without a product",
        graph("ij->ji", "2,3").replace("float[", "uint8["),
        "products of these elements are not supported",
        valid=False,
    ),
    Stays("two unknown dimensions to join", graph("bij,bjkl->bikl", "2,3,4", "2,4,N,M"), UNKNOWN),
    Stays("an unknown dimension in a batch", graph("bij,bjkl->bikl", "N,3,4", "N,4,M,2"), UNKNOWN),
    Stays(
        "an unknown rank",
        graph("ij->ji", "L", inputs=", int64[K] k")
        .replace("{ y = Einsum", "{ r = Reshape (a, k) y = Einsum")
        .replace("> (a)", "> (r)"),
        "the rank is unknown",
    ),
]

FIRES = [
    Fires("transposed", graph("ij->ji", "N,3"), ["Transpose"]),
    Fires(
        "nothing",
        graph("ij->ij", "N,3").replace("y = Einsum", "z = Einsum").replace(" }", " y = Neg (z) }"),
        ["Neg"],
    ),
    Fires("summed", graph("ij->i", "N,3"), ["ReduceSum"]),
    Fires("summed, opset 12", graph("ij->i", "N,3"), ["ReduceSum"], opset=12),
    Fires("summed to a scalar", graph("ij->", "N,3"), ["ReduceSum"]),
    Fires("summed and transposed", graph("ijk->ki", "N,3,4"), ["ReduceSum", "Transpose"]),
    Fires("a product", graph("ij,jk->ik", "N,3", "3,4"), ["MatMul"]),
    Fires("spaces", graph("i j , j k -> i k", "N,3", "3,4"), ["MatMul"]),
    Fires("without a result", graph("ij,jk", "N,3", "3,4"), ["MatMul"]),
    Fires("an unknown sum", graph("ij,jk->ik", "2,N", "N,4"), ["MatMul"], zero_sizes=False),
    Fires("a batch", graph("bij,bjk->bik", "N,3,4", "N,4,5"), ["MatMul"]),
    Fires("scores", graph("bhid,bhjd->bhij", "N,2,M,4", "N,2,K,4"), ["Transpose", "MatMul"]),
    Fires(
        "scores of heads that lie apart",
        graph("bihd,bjhd->bhij", "N,M,2,4", "N,K,2,4"),
        ["Transpose", "Transpose", "MatMul"],
    ),
    Fires(
        "values",
        graph("bhij,bjhd->bihd", "N,2,M,K", "N,K,2,4"),
        ["Transpose", "MatMul", "Transpose"],
    ),
    Fires(
        "heads from weights",
        graph("btm,mhd->bthd", "N,M,6", constants="float[6,2,3] b"),
        ["Reshape", "MatMul", "Reshape"],
    ),
    Fires(
        "heads into weights",
        graph("bthd,hdm->btm", "N,M,2,3", constants="float[2,3,6] b"),
        ["Reshape", "Reshape", "MatMul"],
    ),
    Fires("weights first", graph("km,btm->btk", "5,6", "N,M,6"), ["Transpose", "MatMul"]),
    Fires("elementwise", graph("ij,ij->ij", "N,3", "N,3"), ["Mul"]),
    Fires("elementwise, transposed", graph("ij,ji->ij", "N,3", "3,N"), ["Transpose", "Mul"]),
    Fires("inner products", graph("bi,bi->b", "N,3", "N,3"), ["Mul", "ReduceSum"]),
    Fires("one inner product", graph("i,i->", "3", "3"), ["Mul", "ReduceSum"]),
    Fires("an outer product", graph("i,j->ij", "N", "3"), ["Unsqueeze", "Mul"]),
    Fires("an outer product, turned", graph("i,j->ji", "N", "3"), ["Unsqueeze", "Mul"]),
    Fires(
        "outer products", graph("bi,bj->bij", "N,3", "N,4"), ["Unsqueeze", "Unsqueeze", "MatMul"]
    ),
    Fires(
        "outer products of matrices",
        graph("bij,bk->bijk", "N,3,M", "N,4"),
        ["Unsqueeze", "Unsqueeze", "Mul"],
    ),
    Fires("a factor for each row", graph("bi,b->bi", "N,3", "N"), ["Unsqueeze", "Mul"]),
    Fires("vector and matrix", graph("j,jk->k", "3", "3,4"), ["MatMul"]),
    Fires("matrix and vector", graph("ij,j->i", "N,3", "3"), ["Unsqueeze", "MatMul", "Squeeze"]),
    Fires(
        "vectors and matrices",
        graph("bi,bio->bo", "N,3", "N,3,4"),
        ["Unsqueeze", "MatMul", "Squeeze"],
    ),
    Fires(
        "vectors and matrices, opset 12",
        graph("bi,bio->bo", "N,3", "N,3,4"),
        ["Unsqueeze", "MatMul", "Squeeze"],
        opset=12,
    ),
    Fires(
        "what one has alone is summed", graph("ijl,jk->ik", "N,3,2", "3,4"), ["ReduceSum", "MatMul"]
    ),
    Fires(
        "what the other has alone is summed",
        graph("ij,jkl->ik", "N,3", "3,4,2"),
        ["ReduceSum", "MatMul"],
    ),
    Fires(
        "two axes to sum",
        graph("iab,jab->ij", "N,2,3", "M,2,3"),
        ["Transpose", "Reshape", "Reshape", "MatMul"],
    ),
    Fires(
        "two axes in a batch",
        graph("bxyc,bkc->bxyk", "N,3,4,2", "N,5,2"),
        ["Transpose", "Reshape", "MatMul", "Reshape"],
    ),
    Fires(
        "an open axis at the side",
        graph("bxyc,bkc->bkxy", "2,N,4,2", "2,5,2"),
        ["Transpose", "Reshape", "MatMul", "Reshape"],
    ),
    Fires(
        "matrices and a vector",
        graph("bij,j->bi", "N,M,3", "3"),
        ["Unsqueeze", "MatMul", "Squeeze"],
    ),
    Fires(
        "matrix and vector of two axes",
        graph("ijk,jk->i", "N,2,3", "2,3"),
        ["Reshape", "Reshape", "MatMul", "Squeeze"],
    ),
    Fires(
        "the smaller one is turned",
        graph("bxyc,bkc->bkxy", "2,16,16,8", "2,2,8"),
        ["Transpose", "Reshape", "MatMul", "Reshape", "Transpose"],
    ),
    Fires("integers", graph("ij,jk->ik", "N,3", "3,4").replace("float[", "int32["), ["MatMul"]),
    Fires(
        "doubles",
        graph("ij,jk->ki", "N,3", "3,4").replace("float[", "double["),
        ["MatMul", "Transpose"],
    ),
    Fires(
        "used by a subgraph",
        seen_by_subgraph(graph("ij,jk->ik", "2,3", "3,4"), "y", "float[2,4]"),
        ["MatMul", "If"],
        inside_if=False,
    ),
]

# With an empty value, onnxruntime's own Einsum may divide by zero, which ends the process.
FIRES = [replace(case, zero_sizes=False) for case in FIRES]
test_stays, test_fires = tables("EinsumPass", STAYS, FIRES, in_functions="never")
