"""Models in ONNX's text form in which graph kernel fusion makes areas."""

CHAIN = """agraph (float[N,8] x, float[8] g) => (float[N,8] y) <float c = {0.5}> {
    a = Mul (x, c)  b = Exp (a)  s = Add (b, x)  n = LayerNormalization (s, g)  t = Tanh (n)  y = Sub (t, x) }"""
GATE = "agraph (float[N,8] x) => (float[N,8] y) { s = Sigmoid (x)  t = Tanh (x)  y = Mul (s, t) }"
