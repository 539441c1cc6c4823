"""The forms of torch, by both of its exporters."""

from __future__ import annotations

import io
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import onnx
import torch
import torch.nn.functional as F
from onnx import ModelProto
from torch import Tensor, nn

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
torch.manual_seed(0)
VECTOR = [(2, 6, 8)]
IMAGE = [(2, 4, 8, 8)]


class Form(nn.Module):
    """A function of the inputs and of layers."""

    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.layers = nn.ModuleList(layers)
        for values in [*self.parameters(), *self.buffers()]:
            if values.is_floating_point():
                nn.init.uniform_(values, 0.5, 1.5)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs, *self.layers)


def heads(x: Tensor) -> Tensor:
    return x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)


def attention(x: Tensor, q: nn.Module, k: nn.Module, v: nn.Module, mask: Any = None) -> Tensor:
    scores = heads(q(x)) @ heads(k(x)).transpose(-1, -2) / 2.0
    scores = scores if mask is None else scores + mask
    result = scores.softmax(-1) @ heads(v(x))
    return result.transpose(1, 2).reshape(x.shape[0], x.shape[1], 8)


def packed(x: Tensor, qkv: nn.Module) -> Tensor:
    q, k, v = qkv(x).reshape(x.shape[0], x.shape[1], 3, 2, 4).permute(2, 0, 3, 1, 4)
    result = (q @ k.transpose(-2, -1) * 0.5).softmax(-1) @ v
    return result.transpose(1, 2).reshape(x.shape[0], x.shape[1], 8)


def sdpa(x: Tensor, q: nn.Module, k: nn.Module, v: nn.Module, is_causal: bool = False) -> Tensor:
    result = F.scaled_dot_product_attention(
        heads(q(x)), heads(k(x)), heads(v(x)), is_causal=is_causal
    )
    return result.transpose(1, 2).reshape(x.shape[0], x.shape[1], 8)


def layer_norm(x: Tensor, scale: nn.Module) -> Tensor:
    d = x - x.mean(-1, keepdim=True)
    return d / torch.sqrt((d**2).mean(-1, keepdim=True) + 1e-5) * scale.weight + scale.bias


def rms_norm(x: Tensor, scale: nn.Module) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * scale.weight


def shuffled(x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    return x.view(n, c // 4, 2, 2, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // 4, h * 2, w * 2)


def unshuffled(x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    return x.view(n, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(n, c * 4, 4, 4)


def focus(x: Tensor) -> Tensor:
    return torch.cat(
        [x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1
    )


def three() -> list[nn.Module]:
    return [nn.Linear(8, 8) for _ in range(3)]


def conv(i: int = 4, o: int = 4, k: int = 3, **more: Any) -> nn.Module:
    return nn.Conv2d(i, o, k, **{"padding": k // 2, **more})


FORMS: list[tuple[str, str, Any, list[tuple[int, ...]]]] = [
    ("GeluFusionPass", "gelu", F.gelu, VECTOR),
    ("GeluFusionPass", "gelu as erf", lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))), VECTOR),
    ("GeluFusionPass", "gelu as erf, half last", lambda x: 0.5 * (x * (1.0 + torch.erf(x * 0.7071067811865475))), VECTOR),
    ("GeluFusionPass", "gelu tanh", partial(F.gelu, approximate="tanh"), VECTOR),
    ("GeluFusionPass", "gelu_new", lambda x: 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0)))), VECTOR),
    ("QuickGeluFusionPass", "quick gelu", lambda x: x * torch.sigmoid(1.702 * x), VECTOR),
    ("QuickGeluFusionPass", "silu", F.silu, VECTOR),
    ("QuickGeluFusionPass", "silu as sigmoid", lambda x: torch.sigmoid(x) * x, VECTOR),
    ("MishFusionPass", "mish", F.mish, VECTOR),
    ("MishFusionPass", "mish as tanh", lambda x: x * torch.tanh(F.softplus(x)), VECTOR),
    ("MishFusionPass", "mish as log", lambda x: x * torch.tanh(torch.log(1 + torch.exp(x))), VECTOR),
    ("HardSwishFusionPass", "hardswish", F.hardswish, VECTOR),
    ("HardSwishFusionPass", "hardswish as relu6", lambda x: x * F.relu6(x + 3) / 6, VECTOR),
    ("HardSwishFusionPass", "hardswish as clamp", lambda x: x * torch.clamp(x + 3, 0, 6) * (1 / 6), VECTOR),
    ("HardSwishFusionPass", "hardswish of hardsigmoid", lambda x: x * F.hardsigmoid(x), VECTOR),
    ("HardSigmoidFusionPass", "hardsigmoid", F.hardsigmoid, VECTOR),
    ("HardSigmoidFusionPass", "hardsigmoid as relu6", lambda x: F.relu6(x + 3) / 6, VECTOR),
    ("HardSigmoidFusionPass", "hardsigmoid as clamp", lambda x: torch.clamp(x * 0.2 + 0.5, 0, 1), VECTOR),
    ("SoftplusFusionPass", "softplus as log", lambda x: torch.log(1 + torch.exp(x)), VECTOR),
    ("SoftplusFusionPass", "softplus as log1p", lambda x: torch.log1p(torch.exp(x)), VECTOR),
    ("EluSeluCeluFusionPass", "elu as where", lambda x: torch.where(x > 0, x, torch.exp(x) - 1), VECTOR),
    ("EluSeluCeluFusionPass", "celu", partial(F.celu, alpha=2.0), VECTOR),
    ("EluSeluCeluFusionPass", "selu", F.selu, VECTOR),
    ("ClipFusionPass", "clamp of clamp", lambda x: x.clamp(min=-1).clamp(max=2), VECTOR),
    ("ClipFusionPass", "minimum of relu", lambda x: torch.minimum(F.relu(x), torch.tensor(6.0)), VECTOR),
    ("ClipFusionPass", "where above", lambda x: torch.where(x > 6, torch.tensor(6.0), x), VECTOR),
    ("ClipFusionPass", "abs of relu", lambda x: F.relu(x).abs(), VECTOR),
    ("SoftmaxSmallOpFusionPass", "softmax as exp", lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True), VECTOR),
    ("SoftmaxSmallOpFusionPass", "stable softmax as exp", lambda x: (e := torch.exp(x - x.amax(-1, keepdim=True))) / e.sum(-1, keepdim=True), VECTOR),
    ("StableSoftmaxFusionPass", "softmax minus max", lambda x: torch.softmax(x - x.amax(-1, keepdim=True), -1), VECTOR),
    ("SoftmaxSmallOpFusionPass", "log of softmax", lambda x: torch.log(torch.softmax(x, -1)), VECTOR),
    ("LayerNormFusionPass", "layer norm", Form(lambda x, n: n(x), nn.LayerNorm(8)), VECTOR),
    ("LayerNormFusionPass", "layer norm written", Form(layer_norm, nn.LayerNorm(8)), VECTOR),
    ("LayerNormFusionPass", "layer norm by var", Form(lambda x, n: (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5) * n.weight + n.bias, nn.LayerNorm(8)), VECTOR),
    ("LayerNormFusionPass", "layer norm of channels", Form(lambda x, n: ((x - x.mean(1, keepdim=True)) / torch.sqrt((x - x.mean(1, keepdim=True)).pow(2).mean(1, keepdim=True) + 1e-6)) * n.weight[:, None, None] + n.bias[:, None, None], nn.LayerNorm(4)), IMAGE),
    ("RmsNormFusionPass", "rms norm", Form(lambda x, n: n(x), nn.RMSNorm(8, eps=1e-6)), VECTOR),
    ("RmsNormFusionPass", "rms norm written", Form(rms_norm, nn.LayerNorm(8)), VECTOR),
    ("RmsNormFusionPass", "rms norm as a quotient", Form(lambda x, n: n.weight * (x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)), nn.LayerNorm(8)), VECTOR),
    ("L2NormFusionPass", "normalize", F.normalize, VECTOR),
    ("L2NormFusionPass", "divided by norm", lambda x: x / x.norm(dim=-1, keepdim=True), VECTOR),
    ("GroupNormFusionPass", "group norm", Form(lambda x, n: n(x), nn.GroupNorm(2, 4)), IMAGE),
    ("GroupNormFusionPass", "group norm and silu", Form(lambda x, n: F.silu(n(x)), nn.GroupNorm(2, 4)), IMAGE),
    ("InstanceNormFusionPass", "instance norm written", lambda x: (x - x.mean((2, 3), keepdim=True)) / torch.sqrt(x.var((2, 3), keepdim=True, unbiased=False) + 1e-5), IMAGE),
    ("AddLayerNormFusionPass", "residual and layer norm", Form(lambda x, y, n: n(x + y), nn.LayerNorm(8)), VECTOR * 2),
    ("EmbedLayerNormFusionPass", "embeddings", Form(lambda x, e, p, n: n(e(x) + p(torch.arange(6))), nn.Embedding(9, 8), nn.Embedding(6, 8), nn.LayerNorm(8)), [(2, -6)]),
    ("ConvBatchnormFusionPass", "conv, batch norm", Form(lambda x, c, b: b(c(x)), conv(), nn.BatchNorm2d(4)), IMAGE),
    ("ConvBatchnormFusionPass", "conv, relu, conv, batch norm", Form(lambda x, c, d, b: b(d(F.relu(c(x)))), conv(), conv(bias=False), nn.BatchNorm2d(4)), IMAGE),
    ("BatchnormConvFusionPass", "batch norm, conv", Form(lambda x, c, b: c(b(x)), conv(k=1), nn.BatchNorm2d(4)), IMAGE),
    ("BatchNormToScalePass", "batch norm alone", Form(lambda x, b: F.relu(b(x)), nn.BatchNorm2d(4)), IMAGE),
    ("Conv2DTransposeBatchnormFusionPass", "transposed conv, batch norm", Form(lambda x, c, b: b(c(x)), nn.ConvTranspose2d(4, 4, 2, 2), nn.BatchNorm2d(4)), IMAGE),
    ("AABiasaddConvFusion", "conv and bias", Form(lambda x, c, n: c(x) + n.weight[:, None, None], conv(bias=False), nn.LayerNorm(4)), IMAGE),
    ("ConvScaleFusionPass", "conv and scale", Form(lambda x, c, n: c(x) * n.weight[:, None, None], conv(), nn.LayerNorm(4)), IMAGE),
    ("PadConv2dFusionPass", "pad, conv", Form(lambda x, c: c(F.pad(x, (0, 1, 0, 1))), conv(padding=0)), IMAGE),
    ("TbeConvElemwiseFusionPass", "conv, relu", Form(lambda x, c: F.relu(c(x)), conv()), IMAGE),
    ("TbeConvElemwiseFusionPass", "conv, leaky relu", Form(lambda x, c: F.leaky_relu(c(x), 0.1), conv()), IMAGE),
    ("TbeConvElemwiseFusionPass", "conv, hardswish", Form(lambda x, c: F.hardsigmoid(c(x)), conv()), IMAGE),
    ("TbeConvDoubleInFusionPass", "conv, add, relu", Form(lambda x, c: F.relu(c(x) + x), conv()), IMAGE),
    ("Conv1dToConv2dPass", "conv of one axis", Form(lambda x, c: F.relu(c(x)), nn.Conv1d(6, 16, 3, padding=1)), [(2, 6, 80)]),
    ("DepthToSpaceFusionPass", "pixel shuffle", partial(F.pixel_shuffle, upscale_factor=2), IMAGE),
    ("DepthToSpaceFusionPass", "pixel shuffle written", shuffled, IMAGE),
    ("SpaceToDepthFusionPass", "pixel unshuffle", partial(F.pixel_unshuffle, downscale_factor=2), IMAGE),
    ("SpaceToDepthFusionPass", "pixel unshuffle written", unshuffled, IMAGE),
    ("SpaceToDepthFusionPass", "focus", focus, IMAGE),
    ("MatMulBiasAddFusionPass", "linear of a matrix", Form(lambda x, a: x @ a.weight.t() + a.bias, nn.Linear(8, 4)), [(2, 8)]),
    ("MatMulReassociationPass", "linear, linear", Form(lambda x, a, b: b(a(x)), nn.Linear(8, 8, bias=False), nn.Linear(8, 2, bias=False)), VECTOR),
    ("SameInputMatMulPass", "three linears of one input", Form(lambda x, a, b, c: (a(x), b(x), c(x)), *three()), VECTOR),
    ("InferenceSwigluFusionPass", "swiglu", Form(lambda x, a, b: F.silu(a(x)) * b(x), nn.Linear(8, 16), nn.Linear(8, 16)), VECTOR),
    ("InferenceSwigluFusionPass", "swiglu of chunks", Form(lambda x, a: (lambda h: F.silu(h[0]) * h[1])(a(x).chunk(2, -1)), nn.Linear(8, 32)), VECTOR),
    ("BiasGeluFusionPass", "linear, gelu", Form(lambda x, a: F.gelu(a(x)), nn.Linear(8, 16)), VECTOR),
    ("TransposeScaleMatMulFusionPass", "transposed and scaled product", lambda x, y: torch.matmul(x, y.transpose(1, 2)) * 0.5, VECTOR * 2),
    ("EinsumPass", "einsum of scores", lambda x, y: torch.einsum("bid,bjd->bij", x, y), VECTOR * 2),
    ("EinsumPass", "einsum of heads", lambda x, y: torch.einsum("bhid,bhjd->bhij", x, y), [(2, 2, 6, 4)] * 2),
    ("ZSplitVDFusionPassV2", "halves by slices", lambda x: x[..., :4] * torch.sigmoid(x[..., 4:]), VECTOR),
    ("ZSplitVDFusionPassV2", "three slices", lambda x: (x[:, :, :2].exp(), x[:, :, 2:5].tanh(), x[:, :, 5:].relu()), VECTOR),
    ("ZSplitVDFusionPassV2", "unpacked by index", Form(lambda x, a: (lambda p: p[:, :, 0] * p[:, :, 1] + p[:, :, 2])(a(x).view(x.shape[0], 6, 3, 8)), nn.Linear(8, 24)), VECTOR),
    ("UpstreamGatherPass", "the first token", Form(lambda x, n, a: a(n(x)[:, 0]), nn.LayerNorm(64), nn.Linear(64, 4)), [(2, 96, 64)]),
    ("UpstreamGatherPass", "logits of the last token", Form(lambda x, a: a(x)[:, -1, :], nn.Linear(64, 96)), [(2, 32, 64)]),
    ("StridedSliceMergePass", "slice of slice", lambda x: x[:, 1:5][:, 1:, :4].exp(), VECTOR),
    ("ZConcatExt2FusionPass", "concat of concat", lambda x, y: torch.cat([torch.cat([x, y], -1), x.exp()], -1), VECTOR * 2),
    ("TransOpSymmetryEliminationPass", "permuted twice", lambda x: (x.permute(0, 2, 1) * 2 + 1).permute(0, 2, 1), VECTOR),
    ("TransFunctionSymmetryEliminationPass", "function of permuted", lambda x: x.permute(0, 2, 3, 1).tanh().permute(0, 3, 1, 2), IMAGE),
    ("TransOpSymmetryEliminationPass", "viewed twice", lambda x: x.reshape(x.shape[0], 48).reshape(x.shape[0], 8, 6).exp(), VECTOR),
    ("TransOpSymmetryEliminationPass", "squeezed back", lambda x: x.exp().unsqueeze(1).squeeze(1).exp(), VECTOR),
    ("MultiHeadAttentionFusionPass", "attention", Form(attention, *three()), VECTOR),
    ("MultiHeadAttentionFusionPass", "attention with a mask", Form(lambda x, m, *qkv: attention(x, *qkv, m), *three()), [(2, 6, 8), (2, 1, 6, 6)]),
    ("MultiHeadAttentionFusionPass", "attention packed", Form(packed, nn.Linear(8, 24)), VECTOR),
    ("MultiHeadAttentionFusionPass", "sdpa", Form(sdpa, *three()), VECTOR),
    ("MultiHeadAttentionFusionPass", "sdpa causal", Form(partial(sdpa, is_causal=True), *three()), VECTOR),
    ("MultiHeadAttentionFusionPass", "MultiheadAttention", Form(lambda x, a: a(x, x, x, need_weights=False)[0], nn.MultiheadAttention(8, 2, batch_first=True)), VECTOR),
    ("MultiHeadAttentionFusionPass", "TransformerEncoderLayer", Form(lambda x, a: a(x), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)), VECTOR),
    ("MultiHeadAttentionFusionPass", "TransformerEncoderLayer, norm first", Form(lambda x, a: a(x), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)), VECTOR),
    ("MultiHeadAttentionFusionPass", "TransformerDecoderLayer", Form(lambda x, y, a: a(x, y), nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)), VECTOR * 2),
    ("TransMatMulSymmetryEliminationPass", "batch and length exchanged", Form(lambda x, a: torch.tanh(a(x.transpose(0, 1))).transpose(0, 1), nn.Linear(8, 16)), VECTOR),
    ("DropOutPass", "dropout", Form(lambda x, d: d(x).exp(), nn.Dropout()), VECTOR),
    ("UselessBinaryOpRemovePass", "one and zero", lambda x: x.exp() * 1.0 + 0.0, VECTOR),
    ("NoUseReshapeRemovePass", "view to the same", lambda x: x.exp().view(x.shape).exp(), VECTOR),
    ("NoUseReshapeRemovePass", "resize by 1", lambda x: F.interpolate(x, scale_factor=1.0, mode="nearest").exp(), IMAGE),
    ("PowToMulPass", "square", lambda x: torch.pow(x, 2), VECTOR),
    ("ConstantReassociationPass", "two factors", lambda x: x * 2.0 * 3.0, VECTOR),
    ("RealDiv2MulsFusionPass", "divided by a constant", lambda x: x / 3.0, VECTOR),
    ("PoolingFusionPass", "pad, pool", lambda x: F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 3), IMAGE),
    ("CastRemovePass", "cast to the same", lambda x: x.exp().to(torch.float32).float() + 1, VECTOR),
    ("DimensionComputePass", "view by sizes", lambda x: x.view(x.size(0), x.size(1), 2, x.size(2) // 2).transpose(1, 2), VECTOR),
]  # fmt: skip


# The passes whose forms the slow exporter writes in another way.
DIFFERENT = (
    "MultiHeadAttentionFusionPass", "LayerNormFusionPass", "RmsNormFusionPass", "L2NormFusionPass",
    "GroupNormFusionPass", "InstanceNormFusionPass", "ZSplitVDFusionPassV2", "UpstreamGatherPass",
    "StridedSliceMergePass", "TransOpSymmetryEliminationPass", "NoUseReshapeRemovePass",
    "TransMatMulSymmetryEliminationPass", "InferenceSwigluFusionPass", "EmbedLayerNormFusionPass",
    "SpaceToDepthFusionPass", "DepthToSpaceFusionPass", "SoftmaxSmallOpFusionPass",
)  # fmt: skip


def inputs_of(shapes: list[tuple[int, ...]]) -> tuple[Tensor, ...]:
    """Random numbers; a shape with a negative size has indices."""
    return tuple(
        torch.randint(0, 9, [abs(s) for s in shape]) if min(shape) < 0 else torch.randn(shape)
        for shape in shapes
    )


def exported(
    function: Any, shapes: list[tuple[int, ...]], is_open: bool, is_traced: bool
) -> ModelProto:
    module = (function if isinstance(function, nn.Module) else Form(function)).eval()
    names = [f"x{i}" for i in range(len(shapes))]
    file = io.BytesIO()
    if is_traced:
        torch.onnx.export(
            module, inputs_of(shapes), file, dynamo=False, opset_version=17, input_names=names,
            dynamic_axes={name: {0: "N"} for name in names} if is_open else None,
        )  # fmt: skip
        return onnx.load_from_string(file.getvalue())
    sizes = ({0: torch.export.Dim("N")},) * len(shapes)
    program = torch.onnx.export(
        module, inputs_of(shapes), dynamo=True, input_names=names, verbose=False,
        dynamic_shapes={"inputs": sizes} if is_open else None,
    )  # fmt: skip
    return program.model_proto


def forms(is_traced: bool) -> Iterator[tuple[str, str, Callable[[], ModelProto]]]:
    for pass_name, name, function, shapes in FORMS:
        if not is_traced and pass_name not in DIFFERENT:
            continue
        has_both = is_traced or pass_name == "MultiHeadAttentionFusionPass"
        for is_open in (False, True) if has_both else (True,):
            size = "open" if is_open else "fixed"
            yield (
                pass_name,
                f"{name}, {size}",
                partial(exported, function, shapes, is_open, is_traced),
            )


FILES = [
    ("torch_tracing", f"torch {torch.__version__}, dynamo=False", partial(forms, True)),
    ("torch_dynamo", f"torch {torch.__version__}, dynamo=True", partial(forms, False)),
]
