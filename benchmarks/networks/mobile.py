"""Classifiers for phones: depthwise convolutions, squeeze-and-excite."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from networks.network import Sum, classifier, cnn, conv, residual, squeeze_excite, stack


def mobilenet_v1(act: type[nn.Module] = nn.ReLU) -> nn.Module:
    parts = [conv(3, 32, 3, 2, act=act)]
    channels = 32
    for out, stride in (
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        (512, 1),
        (512, 1),
        (512, 1),
    ):
        parts.append(
            stack(
                conv(channels, channels, 3, stride, channels, act), conv(channels, out, 1, act=act)
            )
        )
        channels = out
    return stack(parts, classifier(channels))


def inverted(
    channels: int,
    out: int,
    kernel: int,
    stride: int,
    act: type[nn.Module],
    gate: type[nn.Module] | None,
):
    """An inverted bottleneck: widen, depthwise convolution, squeeze-and-excite, narrow."""
    wide = channels * 4
    body = [conv(channels, wide, 1, act=act), conv(wide, wide, kernel, stride, wide, act)]
    if gate:
        body.append(squeeze_excite(wide, wide // 4, nn.ReLU, gate))
    body.append(conv(wide, out, 1, act=None))
    return residual(*body) if stride == 1 and channels == out else stack(*body)


def mobilenet_v3() -> nn.Module:
    plan = (
        (16, 24, 3, 2, nn.ReLU, None),
        (24, 24, 3, 1, nn.ReLU, None),
        (24, 40, 5, 2, nn.ReLU, nn.Hardsigmoid),
        (40, 40, 5, 1, nn.ReLU, nn.Hardsigmoid),
        (40, 80, 3, 2, nn.Hardswish, None),
        (80, 80, 3, 1, nn.Hardswish, None),
        (80, 112, 3, 1, nn.Hardswish, nn.Hardsigmoid),
        (112, 112, 3, 1, nn.Hardswish, nn.Hardsigmoid),
        (112, 160, 5, 2, nn.Hardswish, nn.Hardsigmoid),
        (160, 160, 5, 1, nn.Hardswish, nn.Hardsigmoid),
    )
    stem = conv(3, 16, 3, 2, act=nn.Hardswish)
    last = conv(160, 640, 1, act=nn.Hardswish)
    head = [
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(640, 512),
        nn.Hardswish(),
        nn.Linear(512, 100),
    ]
    return stack(stem, [inverted(*row) for row in plan], last, head)


def efficientnet_v2() -> nn.Module:
    def fused(channels: int, out: int, stride: int) -> nn.Module:
        body = [
            conv(channels, channels * 4, 3, stride, act=nn.SiLU),
            conv(channels * 4, out, 1, act=None),
        ]
        return residual(*body) if stride == 1 and channels == out else stack(*body)

    early = [
        fused(24, 24, 1),
        fused(24, 48, 2),
        fused(48, 48, 1),
        fused(48, 64, 2),
        fused(64, 64, 1),
    ]
    late = [
        inverted(c, o, 3, s, nn.SiLU, nn.Sigmoid)
        for c, o, s in ((64, 128, 2), (128, 128, 1), (128, 160, 1))
    ]
    return stack(
        conv(3, 24, 3, 2, act=nn.SiLU), early, late, conv(160, 640, 1, act=nn.SiLU), classifier(640)
    )


class Ghost(nn.Module):
    """Half of the channels come from a 1×1 convolution, and the others from these by a cheap
    convolution.
    """

    def __init__(self, channels: int, out: int, act: type[nn.Module] | None) -> None:
        super().__init__()
        half = (out + 1) // 2
        self.out = out
        self.main = conv(channels, half, 1, act=act)
        self.cheap = conv(half, half, 3, 1, half, act)

    def forward(self, x: Tensor) -> Tensor:
        main = self.main(x)
        return torch.cat([main, self.cheap(main)], 1)[:, : self.out]


def ghostnet() -> nn.Module:
    def block(channels: int, out: int, stride: int, has_gate: bool) -> nn.Module:
        wide = channels * 3
        body: list[nn.Module] = [Ghost(channels, wide, nn.ReLU)]
        if stride > 1:
            body.append(conv(wide, wide, 3, stride, wide, None))
        if has_gate:
            body.append(squeeze_excite(wide, wide // 4, nn.ReLU, nn.Hardsigmoid))
        body.append(Ghost(wide, out, None))
        is_same = stride == 1 and channels == out
        down = stack(
            conv(channels, channels, 3, stride, channels, None), conv(channels, out, 1, act=None)
        )
        return Sum(nn.Identity() if is_same else down, stack(*body))

    plan = (
        (16, 16, 1, False),
        (16, 24, 2, False),
        (24, 24, 1, False),
        (24, 40, 2, True),
        (40, 40, 1, True),
    )
    late = (
        (40, 80, 2, False),
        (80, 80, 1, False),
        (80, 112, 1, True),
        (112, 160, 2, True),
        (160, 160, 1, True),
    )
    return stack(
        conv(3, 16, 3, 2), [block(*row) for row in plan + late], conv(160, 480, 1), classifier(480)
    )


NETWORKS = [
    cnn("mobilenet_v1", "mobile", mobilenet_v1, opset=12),
    cnn("mobilenet_v1_relu6", "mobile", lambda: mobilenet_v1(nn.ReLU6)),
    cnn("mobilenet_v3", "mobile", mobilenet_v3, opset=13),
    cnn("efficientnet_v2", "mobile", efficientnet_v2),
    cnn("ghostnet", "mobile", ghostnet),
]
