"""Segmentation: a class for every pixel."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from networks.network import Cat, Gate, Sum, cnn, conv, residual, squeeze_excite, stack


class Resized(nn.Module):
    """A body after the features. Its result is enlarged bilinearly to the size of the picture."""

    def __init__(self, features: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.features = features
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        y = self.head(self.features(x))
        return F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)


class Pooled(nn.Module):
    """A pool to this many cells and a 1×1 convolution. The result is enlarged again."""

    def __init__(self, cells: int, channels: int, out: int) -> None:
        super().__init__()
        narrow = (
            conv(channels, out, 1) if cells > 1 else stack(nn.Conv2d(channels, out, 1), nn.ReLU())
        )
        self.pool = nn.AdaptiveAvgPool2d(cells)
        self.conv = narrow

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(
            self.conv(self.pool(x)), size=x.shape[-2:], mode="bilinear", align_corners=False
        )


def backbone(act: type[nn.Module] = nn.ReLU) -> nn.Module:
    blocks = [
        stack(conv(c, o, 3, 2, act=act), residual(conv(o, o, act=act), conv(o, o, act=act)))
        for c, o in ((32, 64), (64, 160))
    ]
    return stack(conv(3, 32, 3, 2, act=act), blocks)


def deeplab() -> nn.Module:
    rates = [conv(160, 96, 3, dilation=rate) for rate in (2, 4, 6)]
    spread = Cat(conv(160, 96, 1), *rates, Pooled(1, 160, 96))
    return Resized(
        backbone(),
        stack(spread, conv(480, 128, 1), nn.Dropout(), conv(128, 128), nn.Conv2d(128, 21, 1)),
    )


def pspnet() -> nn.Module:
    pyramid = Cat(nn.Identity(), *(Pooled(cells, 160, 40) for cells in (1, 2, 4)))
    return Resized(backbone(nn.LeakyReLU), stack(pyramid, conv(280, 128), nn.Conv2d(128, 19, 1)))


def attention_segmenter() -> nn.Module:
    """A network like BiSeNet: a gate computed from the whole picture, and a spatial path next to
    the context.
    """
    context = stack(
        backbone(nn.Hardswish),
        squeeze_excite(160, 40, nn.Hardswish, nn.Hardsigmoid),
        conv(160, 96, 1, act=nn.Hardswish),
    )
    spatial = stack(conv(3, 32, 7, 2), conv(32, 64, 3, 2), conv(64, 96, 3, 2))
    gate = Gate(nn.Identity(), stack(nn.AdaptiveAvgPool2d(1), nn.Conv2d(192, 192, 1), nn.Sigmoid()))
    return Resized(
        Cat(spatial, context), stack(Sum(nn.Identity(), gate), conv(192, 64), nn.Conv2d(64, 19, 1))
    )


class TransposedUnet(nn.Module):
    def __init__(self, width: int = 24) -> None:
        super().__init__()
        widths = [width * 2**k for k in range(4)]
        pairs = list(zip([3, *widths], widths, strict=False))
        self.downs = nn.ModuleList(stack(conv(c, o), conv(o, o)) for c, o in pairs)
        self.ups = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1]))
        self.joins = nn.ModuleList(stack(conv(2 * w, w), conv(w, w)) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for number, down in enumerate(self.downs):
            x = down(x if number == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for up, join, other in zip(self.ups, self.joins, reversed(kept[:-1]), strict=True):
            x = join(torch.cat((other, up(x)), 1))
        return self.head(x).softmax(1)


NETWORKS = [
    cnn("deeplab", "segmentation", deeplab, (128, 224), opset=13),
    cnn("pspnet", "segmentation", pspnet, (128, 224)),
    cnn("bisenet", "segmentation", attention_segmenter, (128, 256)),
    cnn("unet_transposed", "segmentation", TransposedUnet, (96, 192), opset=11),
]
