"""Classifiers with convolutions: plain, dense, grouped, shuffled."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from networks.network import (
    Cat,
    Parallel,
    Sum,
    classifier,
    cnn,
    conv,
    residual,
    squeeze_excite,
    stack,
)


def vgg(with_norm: bool) -> nn.Module:
    parts: list[nn.Module] = []
    channels = 3
    for width, count in ((32, 2), (64, 2), (128, 3), (256, 3)):
        for _ in range(count):
            parts.append(
                conv(channels, width)
                if with_norm
                else stack(nn.Conv2d(channels, width, 3, padding=1), nn.ReLU())
            )
            channels = width
        parts.append(nn.MaxPool2d(2))
    head = [
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(4096, 512),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(512, 100),
    ]
    return stack(parts, head)


def densenet(growth: int = 24, blocks: tuple[int, ...] = (4, 6, 8)) -> nn.Module:
    def layer(channels: int) -> Cat:
        squeeze = [
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, 4 * growth, 1, bias=False),
        ]
        grow = [
            nn.BatchNorm2d(4 * growth),
            nn.ReLU(),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        ]
        return Cat(nn.Identity(), stack(squeeze, grow))

    channels = 64
    parts = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for number, count in enumerate(blocks):
        for _ in range(count):
            parts.append(layer(channels))
            channels += growth
        if number + 1 < len(blocks):
            down = nn.Conv2d(channels, channels // 2, 1, bias=False)
            parts.append(stack(nn.BatchNorm2d(channels), nn.ReLU(), down, nn.AvgPool2d(2)))
            channels //= 2
    return stack(parts, nn.BatchNorm2d(channels), nn.ReLU(), classifier(channels))


def grouped(groups: int, width: int, with_squeeze: bool) -> nn.Module:
    """ResNeXt (many groups) or RegNet (groups of a fixed width, squeeze-and-excite)."""

    def block(channels: int, out: int, stride: int) -> nn.Module:
        body = [conv(channels, out, 1), conv(out, out, 3, stride, groups or out // width)]
        if with_squeeze:
            body.append(squeeze_excite(out, channels // 4))
        body.append(conv(out, out, 1, act=None))
        is_same = stride == 1 and channels == out
        shortcut = nn.Identity() if is_same else conv(channels, out, 1, stride, act=None)
        return stack(Sum(shortcut, stack(*body)), nn.ReLU())

    parts = [conv(3, 32, 3, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 32
    for out, count in ((64, 2), (128, 3), (256, 3)):
        for number in range(count):
            parts.append(block(channels, out, 2 if number == 0 and out > 64 else 1))
            channels = out
    return stack(parts, classifier(channels))


class Shuffle(nn.Module):
    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        return x.view(n, self.groups, c // self.groups, h, w).transpose(1, 2).reshape(n, c, h, w)


class ShuffleUnit(nn.Module):
    """The unit of ShuffleNetV2: half of the channels skip it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.body = stack(
            conv(half, half, 1), conv(half, half, 3, 1, half, None), conv(half, half, 1)
        )
        self.shuffle = Shuffle(2)

    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, dim=1)
        return self.shuffle(torch.cat((left, self.body(right)), 1))


def shufflenet_v1(groups: int = 4) -> nn.Module:
    def unit(channels: int, out: int, stride: int) -> nn.Module:
        inner = out // 4
        grown = out if stride == 1 else out - channels
        body = stack(
            conv(channels, inner, 1, groups=groups),
            Shuffle(groups),
            conv(inner, inner, 3, stride, inner, None),
            conv(inner, grown, 1, groups=groups, act=None),
        )
        joined = Sum(nn.Identity(), body) if stride == 1 else Cat(nn.AvgPool2d(3, 2, 1), body)
        return stack(joined, nn.ReLU())

    parts = [conv(3, 32, 3, 2)]
    channels = 32
    for out, count in ((192, 3), (384, 5), (768, 3)):
        parts.extend(
            unit(channels if number == 0 else out, out, 2 if number == 0 else 1)
            for number in range(count)
        )
        channels = out
    return stack(parts, classifier(channels))


def shufflenet_v2() -> nn.Module:
    parts = [conv(3, 48, 3, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 48
    for out, count in ((96, 3), (192, 5), (384, 3)):
        left = stack(conv(channels, channels, 3, 2, channels, None), conv(channels, out // 2, 1))
        right = stack(conv(channels, out // 2, 1), conv(out // 2, out // 2, 3, 2, out // 2, None))
        parts.extend([Cat(left, stack(right, conv(out // 2, out // 2, 1))), Shuffle(2)])
        parts.extend(ShuffleUnit(out) for _ in range(count))
        channels = out
    return stack(parts, conv(channels, 512, 1), classifier(512))


def inception() -> nn.Module:
    def block(channels: int, out: int) -> Cat:
        quarter = out // 4
        pooled = stack(nn.AvgPool2d(3, 1, 1, count_include_pad=False), conv(channels, quarter, 1))
        wide = stack(conv(channels, quarter, 1), conv(quarter, quarter), conv(quarter, quarter))
        return Cat(
            conv(channels, quarter, 1),
            stack(conv(channels, quarter, 1), conv(quarter, quarter, 5)),
            wide,
            pooled,
        )

    stem = [conv(3, 32, 3, 2), conv(32, 64), nn.MaxPool2d(3, 2, ceil_mode=True)]
    body = [
        block(64, 128),
        block(128, 192),
        nn.MaxPool2d(3, 2),
        block(192, 256),
        block(256, 256),
        block(256, 384),
    ]
    return stack(stem, body, classifier(384))


def squeezenet() -> nn.Module:
    def fire(channels: int, inner: int, out: int) -> nn.Module:
        one = nn.Conv2d(inner, out // 2, 1)
        three = nn.Conv2d(inner, out // 2, 3, padding=1)
        squeeze = [nn.Conv2d(channels, inner, 1), nn.ReLU()]
        return stack(squeeze, Cat(stack(one, nn.ReLU()), stack(three, nn.ReLU())))

    stem = [nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)]
    early = [fire(64, 16, 128), fire(128, 16, 128), nn.MaxPool2d(3, 2, ceil_mode=True)]
    late = [fire(128, 32, 256), fire(256, 32, 256), fire(256, 48, 384), fire(384, 64, 512)]
    return stack(
        stem, early, late, nn.Conv2d(512, 100, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )


class Ladder(nn.Module):
    """The inner part of Res2Net: each quarter of the channels reads the sum of itself and the
    previous result.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.steps = nn.ModuleList(conv(width, width) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        first, *others = x.chunk(4, 1)
        made = [first]
        last = None
        for step, part in zip(self.steps, others, strict=True):
            last = step(part if last is None else part + last)
            made.append(last)
        return torch.cat(made, 1)


def res2net() -> nn.Module:
    parts = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for out in (128, 256):
        parts.append(stack(conv(channels, out, 3, 2)))
        for _ in range(3):
            body = [conv(out, out // 2, 1), Ladder(out // 8), conv(out // 2, out, 1, act=None)]
            parts.extend([residual(*body), nn.ReLU()])
        channels = out
    return stack(parts, classifier(channels))


class Exchange(Parallel):
    """The exchange of HRNet: three resolutions, each of which becomes a sum over all of them."""

    def __init__(self, *widths: int) -> None:
        super().__init__(
            *(stack(residual(conv(w, w), conv(w, w, act=None)), nn.ReLU()) for w in widths)
        )
        self.moves = nn.ModuleList(
            nn.ModuleList(
                self.move(source, target, there - here) for here, source in enumerate(widths)
            )
            for there, target in enumerate(widths)
        )

    @staticmethod
    def move(source: int, target: int, steps: int) -> nn.Module:
        if steps <= 0:
            up = conv(source, target, 1, act=None)
            return (
                nn.Identity()
                if steps == 0
                else stack(up, nn.Upsample(scale_factor=2**-steps, mode="nearest"))
            )
        half = [conv(source, source, 3, 2) for _ in range(steps - 1)]
        return stack(half, conv(source, target, 3, 2, act=None))

    def forward(self, values: list[Tensor]) -> list[Tensor]:
        values = [branch(value) for branch, value in zip(self.branches, values, strict=True)]
        sums = []
        for row in self.moves:
            total = row[0](values[0])
            for move, value in zip(row[1:], values[1:], strict=True):
                total = total + move(value)
            sums.append(torch.relu(total))
        return sums


class HRNet(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (24, 48, 96)) -> None:
        super().__init__()
        self.stem = stack(conv(3, 32, 3, 2), conv(32, widths[0], 3, 2))
        self.starts = nn.ModuleList(
            [nn.Identity(), conv(widths[0], widths[1], 3, 2), conv(widths[1], widths[2], 3, 2)]
        )
        self.exchanges = nn.ModuleList(Exchange(*widths) for _ in range(3))
        self.head = nn.Conv2d(widths[0], 17, 1)

    def forward(self, x: Tensor) -> Tensor:
        values = [self.stem(x)]
        for start in self.starts[1:]:
            values.append(start(values[-1]))
        for exchange in self.exchanges:
            values = exchange(values)
        return self.head(values[0])


def repvgg() -> nn.Module:
    """RepVGG as in training, with three branches in each block."""
    parts = [conv(3, 48, 3, 2)]
    channels = 48
    for out, count in ((64, 2), (128, 4), (256, 4)):
        for number in range(count):
            stride = 2 if number == 0 else 1
            branches = [
                conv(channels, out, 3, stride, act=None),
                conv(channels, out, 1, stride, act=None),
            ]
            parts.extend(
                [Sum(*branches, *([nn.BatchNorm2d(out)] if stride == 1 else [])), nn.ReLU()]
            )
            channels = out
    return stack(parts, classifier(channels))


def convmixer() -> nn.Module:
    def block(width: int) -> list[nn.Module]:
        deep = [
            nn.Conv2d(width, width, 7, padding=3, groups=width),
            nn.GELU(),
            nn.BatchNorm2d(width),
        ]
        return [residual(*deep), nn.Conv2d(width, width, 1), nn.GELU(), nn.BatchNorm2d(width)]

    stem = [nn.Conv2d(3, 256, 7, 7), nn.GELU(), nn.BatchNorm2d(256)]
    return stack(stem, *(block(256) for _ in range(6)), classifier(256))


NETWORKS = [
    cnn("vgg", "plain", lambda: vgg(False), (128, 192), opset=11),
    cnn("vgg_bn", "plain", lambda: vgg(True), (128, 192)),
    cnn("inception", "plain", inception, (160, 240)),
    cnn("repvgg", "plain", repvgg),
    cnn("res2net", "plain", res2net),
    cnn("hrnet", "plain", HRNet, (128, 256)),
    cnn("densenet", "dense", densenet, opset=13),
    cnn("densenet_wide", "dense", lambda: densenet(48, (3, 4, 5))),
    cnn("squeezenet", "dense", squeezenet, opset=12),
    cnn("convmixer", "dense", convmixer, (112, 224)),
    cnn("resnext", "grouped", lambda: grouped(32, 0, False), opset=13),
    cnn("regnet", "grouped", lambda: grouped(0, 16, True)),
    cnn("shufflenet_v1", "grouped", shufflenet_v1, opset=11),
    cnn("shufflenet_v2", "grouped", shufflenet_v2),
]
