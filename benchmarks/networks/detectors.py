"""Detectors: backbones with necks and heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from networks.network import cnn, conv, residual, stack


class Csp(nn.Module):
    """A CSP block as in YOLOv5 (two branches) or as in YOLOv8 (the Concat reads the result of every
    bottleneck).
    """

    def __init__(
        self, channels: int, out: int, count: int, act: type[nn.Module], keeps_all: bool, deep: bool
    ) -> None:
        super().__init__()
        half = out // 2
        groups = half if deep else 1
        self.keeps_all = keeps_all
        self.left = conv(channels, half, 1, act=act)
        self.right = conv(channels, half, 1, act=act)
        self.body = nn.ModuleList(
            residual(conv(half, half, 1, act=act), conv(half, half, 3, 1, groups, act))
            for _ in range(count)
        )
        self.last = conv((2 + count if keeps_all else 2) * half, out, 1, act=act)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.right(x), self.left(x)]
        for block in self.body:
            parts.append(block(parts[-1]))
        return self.last(torch.cat(parts if self.keeps_all else [parts[0], parts[-1]], 1))


class Pools(nn.Module):
    """YOLO's SPPF: a max pool applied once, twice and three times."""

    def __init__(self, channels: int, act: type[nn.Module]) -> None:
        super().__init__()
        self.down = conv(channels, channels // 2, 1, act=act)
        self.up = conv(channels * 2, channels, 1, act=act)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        made = [self.down(x)]
        for _ in range(3):
            made.append(self.pool(made[-1]))
        return self.up(torch.cat(made, 1))


class AnchorHead(nn.Module):
    """The head of YOLOv5: boxes from sigmoid, grid and anchors."""

    def __init__(self, channels: int, classes: int = 20) -> None:
        super().__init__()
        self.out = nn.Conv2d(channels, 3 * (classes + 5), 1)
        self.register_buffer("anchors", torch.rand(1, 3, 1, 1, 2) * 100 + 10)

    def forward(self, x: Tensor, stride: int) -> Tensor:
        n, _, h, w = x.shape
        y = self.out(x).view(n, 3, -1, h, w).permute(0, 1, 3, 4, 2).sigmoid()
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack((columns, rows), 2).view(1, 1, h, w, 2).to(x.dtype)
        place, size, score = y.split((2, 2, y.shape[-1] - 4), 4)
        place = (place * 2 - 0.5 + grid) * stride
        size = (size * 2) ** 2 * self.anchors
        return torch.cat((place, size, score), 4).view(n, -1, y.shape[-1])


class DistanceHead(nn.Module):
    """The head of YOLOv8: distances to the four sides, each of which is the mean of a softmax over
    16 bins.
    """

    def __init__(self, channels: int, act: type[nn.Module], classes: int = 20) -> None:
        super().__init__()
        self.box = stack(conv(channels, 64, act=act), conv(64, 64, act=act), nn.Conv2d(64, 64, 1))
        self.score = stack(
            conv(channels, 64, act=act), conv(64, 64, act=act), nn.Conv2d(64, classes, 1)
        )
        self.mean = nn.Conv2d(16, 1, 1, bias=False)
        self.mean.weight.data[:] = torch.arange(16.0).view(1, 16, 1, 1)

    def forward(self, x: Tensor, stride: int) -> Tensor:
        n, _, h, w = x.shape
        bins = self.box(x).view(n, 4, 16, h * w).transpose(2, 1).softmax(1)
        left_top, right_bottom = self.mean(bins).view(n, 4, h * w).chunk(2, 1)
        rows, columns = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
        points = torch.stack((columns, rows)).view(1, 2, -1).to(x.dtype)
        low = points - left_top
        high = points + right_bottom
        boxes = torch.cat(((low + high) / 2, high - low), 1) * stride
        return torch.cat((boxes, self.score(x).view(n, -1, h * w).sigmoid()), 1).transpose(1, 2)


class Focus(nn.Module):
    """The first layer of YOLOX: four pixels become channels, by strided slices."""

    def __init__(self, out: int, act: type[nn.Module]) -> None:
        super().__init__()
        self.conv = conv(12, out, act=act)

    def forward(self, x: Tensor) -> Tensor:
        corners = [x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]]
        return self.conv(torch.cat(corners, 1))


class Yolo(nn.Module):
    def __init__(
        self,
        act: type[nn.Module],
        head: str,
        width: int = 24,
        deep: bool = False,
        focus: bool = False,
    ) -> None:
        super().__init__()
        keeps_all = head == "distances"
        w = width

        def csp(channels: int, out: int, count: int = 1) -> Csp:
            return Csp(channels, out, count, act, keeps_all, deep)

        def down(channels: int, out: int) -> nn.Module:
            depthwise = [
                conv(channels, channels, 3, 2, channels, act),
                conv(channels, out, 1, act=act),
            ]
            return stack(depthwise if deep else conv(channels, out, 3, 2, act=act))

        self.stem = Focus(w, act) if focus else conv(3, w, 3, 2, act=act)
        self.stages = nn.ModuleList(
            stack(
                down(w * 2**k, w * 2 ** (k + 1)),
                csp(w * 2 ** (k + 1), w * 2 ** (k + 1), 1 + (k % 3 > 0)),
            )
            for k in range(4)
        )
        self.pools = Pools(w * 16, act)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.lateral = nn.ModuleList(
            [conv(w * 16, w * 8, 1, act=act), conv(w * 8, w * 4, 1, act=act)]
        )
        self.rising = nn.ModuleList([csp(w * 16, w * 8), csp(w * 8, w * 4)])
        self.downs = nn.ModuleList([down(w * 4, w * 4), down(w * 8, w * 8)])
        self.falling = nn.ModuleList([csp(w * 8, w * 8), csp(w * 16, w * 16)])
        widths = (w * 4, w * 8, w * 16)
        self.heads = nn.ModuleList(
            DistanceHead(c, act) if keeps_all else AnchorHead(c) for c in widths
        )

    def forward(self, image: Tensor) -> Tensor:
        x = self.stem(image)
        seen = []
        for stage in self.stages:
            x = stage(x)
            seen.append(x)
        deep = self.lateral[0](self.pools(seen[3]))
        middle = self.lateral[1](self.rising[0](torch.cat((self.up(deep), seen[2]), 1)))
        small = self.rising[1](torch.cat((self.up(middle), seen[1]), 1))
        medium = self.falling[0](torch.cat((self.downs[0](small), middle), 1))
        large = self.falling[1](torch.cat((self.downs[1](medium), deep), 1))
        found = zip(self.heads, (small, medium, large), (8, 16, 32), strict=True)
        return torch.cat([head(value, stride) for head, value, stride in found], 1)


class Ssd(nn.Module):
    """A depthwise backbone, heads on four levels, and softmax over classes."""

    def __init__(self, classes: int = 21) -> None:
        super().__init__()

        def unit(channels: int, out: int, stride: int) -> nn.Module:
            return stack(
                conv(channels, channels, 3, stride, channels, nn.ReLU6),
                conv(channels, out, 1, act=nn.ReLU6),
            )

        early = stack(
            unit(32, 64, 1),
            unit(64, 128, 2),
            unit(128, 128, 1),
            unit(128, 256, 2),
            unit(256, 256, 1),
        )
        levels = [
            stack(conv(3, 32, 3, 2, act=nn.ReLU6), early),
            unit(256, 512, 2),
            unit(512, 256, 2),
            unit(256, 256, 2),
        ]
        self.levels = nn.ModuleList(levels)
        self.classes = classes
        self.boxes = nn.ModuleList(nn.Conv2d(c, 6 * 4, 3, padding=1) for c in (256, 512, 256, 256))
        self.scores = nn.ModuleList(
            nn.Conv2d(c, 6 * classes, 3, padding=1) for c in (256, 512, 256, 256)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        boxes = []
        scores = []
        for level, box, score in zip(self.levels, self.boxes, self.scores, strict=True):
            x = level(x)
            boxes.append(box(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4))
            scores.append(score(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.classes))
        return torch.cat(boxes, 1), torch.cat(scores, 1).softmax(-1)


class Fcos(nn.Module):
    """A feature pyramid with nearest Resize and sums; one head with GroupNorm for all levels."""

    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.stem = stack(conv(3, 32, 3, 2), nn.MaxPool2d(2))
        self.stages = nn.ModuleList(
            stack(conv(c, o, 3, 2), residual(conv(o, o), conv(o, o)))
            for c, o in ((32, 64), (64, 128), (128, 256))
        )
        self.lateral = nn.ModuleList(nn.Conv2d(c, width, 1) for c in (64, 128, 256))
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(3))
        self.tower = stack(
            *(
                [nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(16, width), nn.ReLU()]
                for _ in range(2)
            )
        )
        self.scores = nn.Conv2d(width, 20, 3, padding=1)
        self.sides = nn.Conv2d(width, 4, 3, padding=1)
        self.scale = nn.Parameter(torch.tensor([0.1, 0.2, 0.3]))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.stem(x)
        seen = []
        for stage in self.stages:
            x = stage(x)
            seen.append(x)
        levels = [self.lateral[2](seen[2])]
        for number in (1, 0):
            up = F.interpolate(levels[0], scale_factor=2.0, mode="nearest")
            levels.insert(0, self.lateral[number](seen[number]) + up)
        scores = []
        sides = []
        for number, value in enumerate(levels):
            value = self.tower(self.smooth[number](value))
            scores.append(self.scores(value).sigmoid().flatten(2))
            sides.append(torch.exp(self.sides(value) * self.scale[number]).flatten(2))
        return torch.cat(scores, 2), torch.cat(sides, 2)


class CenterNet(nn.Module):
    """ConvTranspose up to a heat map. Its peaks are the pixels that a max pool does not change."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [
            stack(conv(c, o, 3, 2), residual(conv(o, o), conv(o, o)))
            for c, o in ((32, 64), (64, 128), (128, 256))
        ]
        ups = [
            [nn.ConvTranspose2d(c, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
            for c, o in ((256, 128), (128, 64))
        ]
        self.body = stack(conv(3, 32, 3, 2), blocks, *ups)
        self.heat = stack(conv(64, 64), nn.Conv2d(64, 20, 1))
        self.size = stack(conv(64, 64), nn.Conv2d(64, 4, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(x)
        heat = self.heat(x).sigmoid()
        peaks = heat * (F.max_pool2d(heat, 3, 1, 1) == heat).to(heat.dtype)
        return peaks, self.size(x)


NETWORKS = [
    cnn("yolo_silu", "detector", lambda: Yolo(nn.SiLU, "anchors"), (160, 256), opset=12),
    cnn("yolo_distances", "detector", lambda: Yolo(nn.SiLU, "distances", 16), (192, 320)),
    cnn(
        "yolo_hardswish",
        "detector",
        lambda: Yolo(nn.Hardswish, "anchors", deep=True),
        (160, 256),
        opset=14,
    ),
    cnn(
        "yolo_leaky_focus",
        "detector",
        lambda: Yolo(nn.LeakyReLU, "distances", 20, focus=True),
        (160, 256),
        opset=13,
    ),
    cnn("yolo_mish", "detector", lambda: Yolo(nn.Mish, "anchors", 16), (160, 256)),
    cnn("ssd", "detector", Ssd, (160, 300), opset=11),
    cnn("fcos", "detector", Fcos, (160, 256)),
    cnn("centernet", "detector", CenterNet, (128, 256), opset=13),
]
