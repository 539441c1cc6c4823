"""Networks whose output is a picture or a sound: diffusion, super resolution, style, vocoders."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from networks.network import Cat, Inputs, Network, image, residual, sequence, stack


class TimedBlock(nn.Module):
    """GroupNorm, SiLU and convolution. The time is added in between."""

    def __init__(self, channels: int, out: int, time: int) -> None:
        super().__init__()
        self.before = stack(
            nn.GroupNorm(16, channels), nn.SiLU(), nn.Conv2d(channels, out, 3, padding=1)
        )
        self.after = stack(
            nn.GroupNorm(16, out), nn.SiLU(), nn.Dropout(), nn.Conv2d(out, out, 3, padding=1)
        )
        self.time = stack(nn.SiLU(), nn.Linear(time, out))
        self.skip = nn.Identity() if channels == out else nn.Conv2d(channels, out, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        return self.skip(x) + self.after(self.before(x) + self.time(time)[:, :, None, None])


class PixelAttention(nn.Module):
    """Self-attention over pixels, and attention to a text if there is one."""

    def __init__(self, channels: int, heads: int, text: int = 0) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(16, channels)
        self.query = nn.Linear(channels, channels)
        self.out = nn.Linear(channels, channels)
        self.both = nn.Linear(text or channels, 2 * channels)
        self.heads = heads

    def forward(self, x: Tensor, text: Tensor | None = None) -> Tensor:
        n, c, h, w = x.shape
        flat = self.norm(x).flatten(2).transpose(1, 2)
        key, value = self.both(flat if text is None else text).chunk(2, -1)
        query, key, value = (
            part.view(n, -1, self.heads, c // self.heads).transpose(1, 2)
            for part in (self.query(flat), key, value)
        )
        mixed = (
            F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(n, h * w, c)
        )
        return x + self.out(mixed).transpose(1, 2).view(n, c, h, w)


class DiffusionUnet(nn.Module):
    def __init__(self, width: int = 64, text: int = 128) -> None:
        super().__init__()
        time = 4 * width
        wide = 2 * width
        self.width = width
        self.first = nn.Conv2d(4, width, 3, padding=1)
        self.time = stack(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.text = text
        self.down = nn.ModuleList([TimedBlock(width, width, time), TimedBlock(width, wide, time)])
        self.halve = nn.Conv2d(width, width, 3, 2, 1)
        self.attend = nn.ModuleList(PixelAttention(wide, 4, kind) for kind in (0, text, 0, text))
        self.middle = TimedBlock(wide, wide, time)
        self.up = nn.ModuleList(
            [TimedBlock(2 * wide, wide, time), TimedBlock(wide + width, width, time)]
        )
        self.last = stack(nn.GroupNorm(16, width), nn.SiLU(), nn.Conv2d(width, 4, 3, padding=1))

    def forward(self, image: Tensor, step: Tensor, text: Tensor) -> Tensor:
        rates = torch.exp(
            torch.arange(self.width // 2, dtype=torch.float32)
            * (-math.log(1e4) / (self.width // 2))
        )
        angles = step[:, None].float() * rates[None]
        time = self.time(torch.cat((angles.sin(), angles.cos()), 1).to(image.dtype))
        x = self.first(image)
        early = self.down[0](x, time)
        late = self.attend[1](self.attend[0](self.down[1](self.halve(early), time)), text)
        x = self.middle(late, time)
        x = self.attend[3](self.attend[2](self.up[0](torch.cat((x, late), 1), time)), text)
        x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        return self.last(self.up[1](torch.cat((x, early), 1), time))


def latent(size: int) -> Inputs:
    return {
        "image": torch.randn(1, 4, size, size),
        "step": torch.full((1,), 500.0),
        "text": torch.randn(1, 20, 128),
    }


def vae_decoder() -> nn.Module:
    def block(channels: int) -> nn.Module:
        half = [nn.GroupNorm(16, channels), nn.SiLU(), nn.Conv2d(channels, channels, 3, padding=1)]
        return residual(
            *half,
            nn.GroupNorm(16, channels),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def up(channels: int, out: int) -> list[nn.Module]:
        return [
            nn.Upsample(scale_factor=2.0, mode="nearest"),
            nn.Conv2d(channels, out, 3, padding=1),
        ]

    stem = [nn.Conv2d(4, 128, 3, padding=1), block(128), PixelAttention(128, 1), block(128)]
    last = [nn.GroupNorm(16, 32), nn.SiLU(), nn.Conv2d(32, 3, 3, padding=1)]
    return stack(stem, up(128, 64), block(64), up(64, 32), block(32), last)


def edsr(width: int = 48) -> nn.Module:
    blocks = [
        residual(
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)
        )
        for _ in range(6)
    ]
    body = residual(*blocks, nn.Conv2d(width, width, 3, padding=1))
    up = [nn.Conv2d(width, width * 4, 3, padding=1), nn.PixelShuffle(2)]
    return stack(nn.Conv2d(3, width, 3, padding=1), body, up, nn.Conv2d(width, 3, 3, padding=1))


def espcn() -> nn.Module:
    early = [nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh()]
    return stack(early, nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3), nn.Sigmoid())


class Scaled(nn.Module):
    def __init__(self, body: nn.Module, factor: float) -> None:
        super().__init__()
        self.body = body
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) * self.factor


def esrgan(width: int = 32, growth: int = 16) -> nn.Module:
    """Residual dense blocks with LeakyRelu. Sums are scaled by 0.2."""

    def dense() -> nn.Module:
        grow = [
            Cat(
                nn.Identity(),
                stack(nn.Conv2d(width + k * growth, growth, 3, padding=1), nn.LeakyReLU(0.2)),
            )
            for k in range(4)
        ]
        return Scaled(stack(grow, nn.Conv2d(width + 4 * growth, width, 3, padding=1)), 0.2)

    trunk = residual(
        *(Scaled(stack(dense(), dense()), 0.2) for _ in range(2)),
        nn.Conv2d(width, width, 3, padding=1),
    )
    up = [
        nn.Upsample(scale_factor=2.0, mode="nearest"),
        nn.Conv2d(width, width, 3, padding=1),
        nn.LeakyReLU(0.2),
    ]
    return stack(nn.Conv2d(3, width, 3, padding=1), trunk, up, nn.Conv2d(width, 3, 3, padding=1))


def style() -> nn.Module:
    def unit(channels: int, out: int, kernel: int, stride: int) -> list[nn.Module]:
        pad = nn.ReflectionPad2d(kernel // 2)
        return [
            pad,
            nn.Conv2d(channels, out, kernel, stride),
            nn.InstanceNorm2d(out, affine=True),
            nn.ReLU(),
        ]

    down = [*unit(3, 24, 9, 1), *unit(24, 48, 3, 2), *unit(48, 96, 3, 2)]
    body = [residual(*unit(96, 96, 3, 1), *unit(96, 96, 3, 1)[:3]) for _ in range(3)]
    up = [
        nn.Upsample(scale_factor=2.0),
        *unit(96, 48, 3, 1),
        nn.Upsample(scale_factor=2.0),
        *unit(48, 24, 3, 1),
    ]
    return stack(down, body, up, nn.ReflectionPad2d(4), nn.Conv2d(24, 3, 9))


def vocoder(width: int = 96) -> nn.Module:
    """A vocoder like HiFi-GAN: ConvTranspose, and then dilated residual convolutions of three
    widths.
    """

    def field(channels: int, kernel: int) -> nn.Module:
        def pad(dilation: int) -> int:
            return dilation * (kernel - 1) // 2

        return stack(*(
            residual(
                nn.LeakyReLU(0.1), nn.Conv1d(channels, channels, kernel, 1, pad(d), d),
                nn.LeakyReLU(0.1), nn.Conv1d(channels, channels, kernel, 1, pad(1)),
            )
            for d in (1, 3)
        ))  # fmt: skip

    parts: list[nn.Module] = [nn.Conv1d(80, width, 7, padding=3)]
    for factor in (8, 4):
        parts.extend(
            [
                nn.LeakyReLU(0.1),
                nn.ConvTranspose1d(width, width // 2, factor * 2, factor, factor // 2),
            ]
        )
        width //= 2
        parts.append(Scaled(stack(field(width, 3), field(width, 7)), 1 / 3))
    return stack(parts, nn.LeakyReLU(), nn.Conv1d(width, 1, 7, padding=3), nn.Tanh())


NETWORKS = [
    Network("diffusion_unet", "generative", "cnn", DiffusionUnet, latent, (16, 32)),
    Network("vae_decoder", "generative", "cnn", vae_decoder, image(4), (12, 24), opset=14),
    Network("esrgan", "generative", "cnn", esrgan, image(), (48, 96), opset=13),
    Network("style", "generative", "cnn", style, image(), (64, 128), opset=12),
    Network("edsr", "generative", "cnn", edsr, image(), (48, 96), opset=11),
    Network("espcn", "generative", "cnn", espcn, image(1), (64, 128)),
    Network("vocoder", "generative", "cnn", vocoder, sequence(1, 80, -1), (40, 100), opset=13),
]
