"""Vision transformers: windowed, hierarchical, hybrid, and networks that mix tokens without
attention.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from networks.network import Network, classifier, conv, image, residual, stack


class Attention(nn.Module):
    """Attention over [N, length, width]. Keys and values may come from another value. It is written
    out, or torch's own function.
    """

    def __init__(
        self, width: int, heads: int, written_out: bool = True, is_joined: bool = True
    ) -> None:
        super().__init__()
        self.heads = heads
        self.written_out = written_out
        self.is_joined = is_joined
        self.qkv = nn.Linear(width, 3 * width) if is_joined else nn.Linear(width, width)
        self.kv = None if is_joined else nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, other: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        n, length, width = x.shape
        if self.kv is None:
            query, key, value = (
                self.qkv(x).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            )
        else:
            key, value = (
                self.kv(x if other is None else other)
                .view(n, -1, 2, self.heads, width // self.heads)
                .permute(2, 0, 3, 1, 4)
            )
            query = self.qkv(x).view(n, length, self.heads, -1).transpose(1, 2)
        if self.written_out:
            scores = (query * (width // self.heads) ** -0.5) @ key.transpose(-2, -1)
            mixed = (scores if bias is None else scores + bias).softmax(-1) @ value
        else:
            mixed = F.scaled_dot_product_attention(query, key, value, bias)
        return self.out(mixed.transpose(1, 2).reshape(n, length, width))


def mlp(width: int, act: type[nn.Module] = nn.GELU, factor: int = 4) -> nn.Sequential:
    return stack(
        nn.Linear(width, factor * width), act(), nn.Dropout(), nn.Linear(factor * width, width)
    )


def layer(
    width: int, heads: int, written_out: bool = True, act: type[nn.Module] = nn.GELU
) -> nn.Module:
    attend = residual(nn.LayerNorm(width), Attention(width, heads, written_out))
    return stack(attend, residual(nn.LayerNorm(width), mlp(width, act)))


class Vit(nn.Module):
    """Patches, a class token and layers."""

    def __init__(
        self,
        image_size: int,
        width: int = 192,
        depth: int = 6,
        patch: int = 16,
        written_out: bool = False,
    ) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.position = nn.Parameter(torch.randn(1, (image_size // patch) ** 2 + 1, width) * 0.02)
        self.layers = stack([layer(width, width // 32, written_out) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 100)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patch(image).flatten(2).transpose(1, 2)
        x = (
            torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1)
            + self.position[:, : x.shape[1] + 1]
        )
        return self.head(self.norm(self.layers(x))[:, 0])


class Channels(nn.Module):
    """LayerNorm over the channels of [N, C, H, W]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Tokens(nn.Module):
    """A body for [N, H·W, C], applied to [N, C, H, W]."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = stack(*body)

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        return self.body(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(n, c, h, w)


class Windows(nn.Module):
    """Attention within windows, with a bias by relative position. The windows are shifted (Swin) or
    a grid (MaxViT).
    """

    def __init__(
        self, width: int, heads: int, size: int, shift: int = 0, is_grid: bool = False
    ) -> None:
        super().__init__()
        self.size = size
        self.shift = shift
        self.is_grid = is_grid
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.table = nn.Parameter(torch.randn((2 * size - 1) ** 2, heads) * 0.02)
        places = torch.stack(
            torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        ).flatten(1)
        apart = places[:, :, None] - places[:, None, :] + size - 1
        self.register_buffer("index", apart[0] * (2 * size - 1) + apart[1])
        self.mlp = residual(nn.LayerNorm(width), mlp(width, factor=2))

    def forward(self, x: Tensor) -> Tensor:
        n, h, w, c = x.shape
        s = self.size
        y = self.norm(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        order = (0, 2, 4, 1, 3, 5) if self.is_grid else (0, 1, 3, 2, 4, 5)
        back = (0, 3, 1, 4, 2, 5) if self.is_grid else (0, 1, 3, 2, 4, 5)
        rows = h // s
        columns = w // s
        cut = (n, s, rows, s, columns, c) if self.is_grid else (n, rows, s, columns, s, c)
        y = y.view(cut).permute(order).reshape(-1, s * s, c)
        bias = self.table[self.index.view(-1)].view(s * s, s * s, -1).permute(2, 0, 1).unsqueeze(0)
        y = self.attention(y, bias=bias)
        y = y.view(n, rows, columns, s, s, c).permute(back).reshape(n, h, w, c)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        return self.mlp(x + y)


class Swin(nn.Module):
    def __init__(self, width: int = 64, size: int = 7) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.start = nn.LayerNorm(width)
        self.first = stack(Windows(width, 2, size), Windows(width, 2, size, size // 2))
        self.merge_norm = nn.LayerNorm(4 * width)
        self.merge = nn.Linear(4 * width, 2 * width, bias=False)
        self.second = stack(*(Windows(2 * width, 4, size, (k % 2) * (size // 2)) for k in range(4)))
        self.norm = nn.LayerNorm(2 * width)
        self.head = nn.Linear(2 * width, 100)

    def forward(self, image: Tensor) -> Tensor:
        x = self.first(self.start(self.patch(image).permute(0, 2, 3, 1)))
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        x = self.second(self.merge(self.merge_norm(x)))
        return self.head(self.norm(x).mean((1, 2)))


class LastAxis(nn.Module):
    """A body for [N, H, W, C], applied to [N, C, H, W]."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def maxvit() -> nn.Module:
    def block(width: int) -> list[nn.Module]:
        wide = 2 * width
        body = [
            nn.BatchNorm2d(width),
            conv(width, wide, 1, act=nn.GELU),
            conv(wide, wide, 3, 1, wide, nn.GELU),
        ]
        windows = stack(Windows(width, 4, 7), Windows(width, 4, 7, is_grid=True))
        return [residual(*body, nn.Conv2d(wide, width, 1)), LastAxis(windows)]

    stem = [conv(3, 64, 3, 2, act=nn.GELU), conv(64, 64, 3, 2)]
    return stack(stem, block(64), conv(64, 128, 3, 2), block(128), classifier(128))


class Reduced(nn.Module):
    """The attention of PVT and SegFormer: keys and values come from a coarser picture. The MLP
    contains a convolution.
    """

    def __init__(self, width: int, heads: int, ratio: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, is_joined=False)
        self.coarse = nn.Conv2d(width, width, ratio, ratio)
        self.coarse_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.deep = nn.Conv2d(4 * width, 4 * width, 3, 1, 1, groups=4 * width)
        self.last = nn.LayerNorm(width)

    def forward(self, picture: Tensor) -> Tensor:
        n, c, h, w = picture.shape
        x = picture.flatten(2).transpose(1, 2)
        y = self.norm(x)
        small = self.coarse(y.transpose(1, 2).reshape(n, c, h, w)).flatten(2).transpose(1, 2)
        x = x + self.attention(y, self.coarse_norm(small))
        wide = self.up(self.last(x)).transpose(1, 2).reshape(n, 4 * c, h, w)
        x = x + self.down(F.gelu(self.deep(wide).flatten(2).transpose(1, 2)))
        return x.transpose(1, 2).reshape(n, c, h, w)


class Segformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([
            stack(nn.Conv2d(3, 32, 7, 4, 3), Channels(32), Reduced(32, 1, 8), Reduced(32, 1, 8)),
            stack(nn.Conv2d(32, 64, 3, 2, 1), Channels(64), Reduced(64, 2, 4), Reduced(64, 2, 4)),
            stack(
                nn.Conv2d(64, 160, 3, 2, 1), Channels(160), Reduced(160, 5, 2), Reduced(160, 5, 2)
            ),
        ])  # fmt: skip
        self.heads = nn.ModuleList(nn.Conv2d(c, 64, 1) for c in (32, 64, 160))
        self.join = stack(conv(192, 64, 1), nn.Conv2d(64, 19, 1))

    def forward(self, x: Tensor) -> Tensor:
        made: list[Tensor] = []
        for stage, head in zip(self.stages, self.heads, strict=True):
            x = stage(x)
            y = head(x)
            made.append(
                F.interpolate(y, size=made[0].shape[-2:], mode="bilinear", align_corners=False)
                if made
                else y
            )
        return self.join(torch.cat(made, 1))


def pvt() -> nn.Module:
    first = [nn.Conv2d(3, 64, 4, 4), Channels(64), Reduced(64, 1, 8), Reduced(64, 1, 8)]
    second = [nn.Conv2d(64, 128, 2, 2), Channels(128), Reduced(128, 2, 4), Reduced(128, 2, 4)]
    return stack(
        first, second, nn.Conv2d(128, 192, 2, 2), Channels(192), Reduced(192, 6, 2), classifier(192)
    )


class MobileVit(nn.Module):
    """Convolutions, and then attention among the pixels at the same position in all patches."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.local = stack(
            conv(channels, channels, act=nn.SiLU), nn.Conv2d(channels, width, 1, bias=False)
        )
        self.layers = stack(
            layer(width, 4, act=nn.SiLU), layer(width, 4, act=nn.SiLU), nn.LayerNorm(width)
        )
        self.project = conv(width, channels, 1, act=nn.SiLU)
        self.fuse = conv(2 * channels, channels, act=nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        y = self.local(x)
        n, d, h, w = y.shape
        y = y.reshape(n * d * (h // 2), 2, w // 2, 2).transpose(1, 2).reshape(n, d, h * w // 4, 4)
        y = y.transpose(1, 3).reshape(n * 4, h * w // 4, d)
        y = self.layers(y).view(n, 4, h * w // 4, d).transpose(1, 3)
        y = y.reshape(n * d * (h // 2), w // 2, 2, 2).transpose(1, 2).reshape(n, d, h, w)
        return self.fuse(torch.cat((x, self.project(y)), 1))


def mobilevit() -> nn.Module:
    down = [
        conv(3, 32, 3, 2, act=nn.SiLU),
        conv(32, 64, 3, 2, 32, nn.SiLU),
        conv(64, 96, 3, 2, act=nn.SiLU),
    ]
    return stack(
        down,
        MobileVit(96, 120),
        conv(96, 128, 3, 2, act=nn.SiLU),
        MobileVit(128, 160),
        classifier(128),
    )


class Turned(nn.Module):
    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = stack(*body)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x.transpose(1, 2)).transpose(1, 2)


def mixer(size: int, width: int = 256) -> nn.Module:
    count = (size // 16) ** 2
    blocks = [
        stack(
            residual(
                nn.LayerNorm(width),
                Turned(nn.Linear(count, 128), nn.GELU(), nn.Linear(128, count)),
            ),
            residual(nn.LayerNorm(width), mlp(width)),
        )
        for _ in range(6)
    ]  # fmt: skip
    return stack(
        nn.Conv2d(3, width, 16, 16), Tokens(*blocks, nn.LayerNorm(width)), classifier(width)
    )


class CrossChannels(nn.Module):
    """The attention of XCiT: among channels, over normalized queries and keys."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.heat = nn.Parameter(torch.ones(heads, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        query, key, value = (
            self.qkv(x).reshape(n, length, 3, self.heads, -1).permute(2, 0, 3, 4, 1).unbind(0)
        )
        scores = F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).transpose(-2, -1) * self.heat
        return self.out((scores.softmax(-1) @ value).permute(0, 3, 1, 2).reshape(n, length, width))


def xcit(width: int = 128) -> nn.Module:
    stem = [
        conv(3, 64, 3, 2, act=nn.GELU),
        conv(64, 96, 3, 2, act=nn.GELU),
        conv(96, width, 3, 2, act=None),
    ]
    blocks = []
    for _ in range(4):
        local = [nn.Conv2d(width, width, 3, 1, 1, groups=width), nn.GELU(), nn.BatchNorm2d(width)]
        cross = Tokens(
            residual(nn.LayerNorm(width), CrossChannels(width, 4)),
            residual(nn.LayerNorm(width), mlp(width)),
        )
        blocks.extend([cross, residual(*local, nn.Conv2d(width, width, 3, 1, 1, groups=width))])
    return stack(stem, blocks, classifier(width))


def vision(
    name: str, module, sizes: tuple[int, int] = (128, 224), opset: int = 17, group: str = "vision"
) -> Network:
    return Network(name, group, "transformer", module, image(), sizes, opset)


NETWORKS = [
    vision("deit", lambda: Vit(224), opset=14),
    vision("vit_written_out", lambda: Vit(224, 256, written_out=True), opset=12),
    vision("swin", Swin, (112, 224), 13),
    vision("pvt", pvt, (128, 224), 11),
    vision("segformer", Segformer),
    vision("maxvit", maxvit, (112, 224), group="hybrid"),
    vision("mobilevit", mobilevit, (128, 256), 13, "hybrid"),
    vision("mixer", lambda: mixer(224), (224, 224), group="hybrid"),
    vision("xcit", xcit, group="hybrid"),
]
