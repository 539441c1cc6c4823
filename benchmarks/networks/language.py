"""Decoders with and without past, other language models, recommenders, and networks in float16 and
bfloat16.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from networks import convolutional, mobile, pictures, speech, vision
from networks.network import Inputs, Network, image, residual, sequence, stack, tokens
from networks.vision import mlp


class Rms(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class DecoderLayer(nn.Module):
    """Causal attention with a cache. Positions are learned outside, rotary (halves or pairs), or a
    slope for each head.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int,
        positions: str,
        is_gated: bool,
        is_parallel: bool,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.kv_heads = kv_heads
        self.size = width // heads
        self.positions = positions
        norm = Rms if is_gated else nn.LayerNorm
        self.norm = norm(width)
        self.norm2 = norm(width)
        self.is_parallel = is_parallel
        self.q = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.k, self.v = (nn.Linear(width, kv_heads * self.size) for _ in range(2))
        self.gate = nn.Linear(width, 3 * width, bias=False) if is_gated else None
        self.up = nn.Linear(width, (3 if is_gated else 4) * width)
        self.down = nn.Linear((3 if is_gated else 4) * width, width)

    def turn(self, x: Tensor, start: int) -> Tensor:
        rates = 1e4 ** (-torch.arange(0, self.size, 2, dtype=torch.float32) / self.size)
        angles = (torch.arange(x.shape[2], dtype=torch.float32) + start)[:, None] * rates
        if self.positions == "pairs":
            cosine = angles.cos().to(x.dtype)
            sine = angles.sin().to(x.dtype)
            even = x[..., ::2]
            odd = x[..., 1::2]
            return torch.stack(
                (even * cosine - odd * sine, odd * cosine + even * sine), -1
            ).flatten(-2)
        both = torch.cat((angles, angles), -1)
        low, high = x.chunk(2, -1)
        return x * both.cos().to(x.dtype) + torch.cat((-high, low), -1) * both.sin().to(x.dtype)

    def attend(
        self, x: Tensor, past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        n, length, width = x.shape
        query, key, value = (
            part.view(n, length, -1, self.size).transpose(1, 2)
            for part in (self.q(x), self.k(x), self.v(x))
        )
        start = 0 if past is None else past[0].shape[2]
        if self.positions in ("halves", "pairs"):
            query = self.turn(query, start)
            key = self.turn(key, start)
        if past is not None:
            key = torch.cat((past[0], key), 2)
            value = torch.cat((past[1], value), 2)
        every = start + length
        repeats = self.heads // self.kv_heads
        wide = [
            part[:, :, None]
            .expand(-1, -1, repeats, -1, -1)
            .reshape(n, self.heads, every, self.size)
            if repeats > 1
            else part
            for part in (key, value)
        ]
        scores = query @ wide[0].transpose(2, 3) / math.sqrt(self.size)
        if self.positions == "slopes":
            slopes = 2.0 ** (-8 * (torch.arange(self.heads) + 1) / self.heads)
            scores = scores + (slopes[:, None, None] * torch.arange(every)).to(x.dtype)
        mask = torch.full((length, every), torch.finfo(x.dtype).min, dtype=x.dtype).triu(start + 1)
        mixed = (scores + mask).softmax(-1, dtype=torch.float32).to(x.dtype) @ wide[1]
        return self.out(mixed.transpose(1, 2).reshape(n, length, width)), key, value

    def feed(self, x: Tensor) -> Tensor:
        wide = self.up(x)
        return self.down(
            F.gelu(wide, approximate="tanh") if self.gate is None else F.silu(self.gate(x)) * wide
        )

    def forward(
        self, x: Tensor, past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        y = self.norm(x)
        mixed, key, value = self.attend(y, past)
        if self.is_parallel:
            return x + mixed + self.feed(y), key, value
        x = x + mixed
        return x + self.feed(self.norm2(x)), key, value


class Decoder(nn.Module):
    """Returns the logits, and the keys and values if it takes those of the past."""

    def __init__(
        self,
        positions: str,
        is_gated: bool = False,
        is_parallel: bool = False,
        kv_heads: int = 8,
        depth: int = 4,
    ) -> None:
        super().__init__()
        width = 256
        self.embed = nn.Embedding(4000, width)
        self.norm = (Rms if is_gated else nn.LayerNorm)(width)
        self.places = nn.Embedding(512, width) if positions == "learned" else None
        layers = [
            DecoderLayer(width, 8, kv_heads, positions, is_gated, is_parallel) for _ in range(depth)
        ]
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(width, 4000, bias=False)

    def forward(self, ids: Tensor, *past: Tensor) -> Tensor | tuple[Tensor, ...]:
        x = self.embed(ids)
        if self.places is not None:
            start = past[0].shape[2] if past else 0
            x = x + self.places(torch.arange(start, start + ids.shape[1]))
        present: list[Tensor] = []
        for number, part in enumerate(self.layers):
            x, key, value = part(x, (past[2 * number], past[2 * number + 1]) if past else None)
            present.extend((key, value))
        logits = self.head(self.norm(x))
        return (logits, *present) if past else logits


def with_past(kv_heads: int, depth: int = 4, new: int = 1) -> Callable[[int], Inputs]:
    def make(size: int) -> Inputs:
        names = [f"{kind}{number}" for number in range(depth) for kind in ("key", "value")]
        past = {name: torch.randn(1, kv_heads, size, 32) for name in names}
        return {"ids": torch.randint(0, 4000, (1, new)), **past}

    return make


class Interests(nn.Module):
    """A recommender: a candidate attends to earlier items, by an MLP with PReLU and BatchNorm."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.items = nn.Embedding(5000, width)
        self.score = stack(
            nn.Linear(4 * width, 80), nn.PReLU(), nn.Linear(80, 40), nn.Sigmoid(), nn.Linear(40, 1)
        )
        dense = [
            nn.Linear(3 * width, 200),
            nn.BatchNorm1d(200),
            nn.PReLU(),
            nn.Linear(200, 80),
            nn.BatchNorm1d(80),
        ]
        self.head = stack(dense, nn.PReLU(), nn.Linear(80, 2))

    def forward(self, seen: Tensor, candidate: Tensor) -> Tensor:
        keys = self.items(seen)
        query = self.items(candidate)
        wide = query.unsqueeze(1).expand_as(keys)
        weights = self.score(torch.cat((wide, keys, wide - keys, wide * keys), -1)).squeeze(-1)
        weights = weights.masked_fill(seen == 0, -1e9).softmax(-1)
        interest = (weights.unsqueeze(1) @ keys).squeeze(1)
        return self.head(torch.cat((query, interest, query * interest), -1)).softmax(-1)


class Experts(nn.Module):
    """A mixture of experts. All of them are computed, and a gate weights them."""

    def __init__(self, width: int = 192, count: int = 4) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(mlp(width, nn.SiLU, 2) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        best, places = self.gate(x).softmax(-1).topk(2, -1)
        weights = torch.zeros_like(self.gate(x)).scatter(
            -1, places, best / best.sum(-1, keepdim=True)
        )
        return sum(weights[..., k : k + 1] * expert(x) for k, expert in enumerate(self.experts))


def experts() -> nn.Module:
    layers = [
        [residual(Rms(192), vision.Attention(192, 6)), residual(Rms(192), Experts())]
        for _ in range(3)
    ]
    return stack(nn.Embedding(4000, 192), *layers, Rms(192), nn.Linear(192, 1000))


class StoredHalf(nn.Module):
    """Linear layers with weights in bfloat16 that compute in float32, as in exports of models with
    small files.
    """

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body
        for part in body.modules():
            if isinstance(part, nn.Linear):
                part.to(torch.bfloat16)
                part.forward = lambda x, part=part: F.linear(
                    x, part.weight.float(), None if part.bias is None else part.bias.float()
                )

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.body(*inputs)


def decoder(
    name: str, inputs: Callable[[int], Inputs], sizes: tuple[int, int], opset: int, **options
) -> Network:
    return Network(name, "decoder", "transformer", lambda: Decoder(**options), inputs, sizes, opset)


def half(
    name: str, module: Callable[[], nn.Module], inputs, sizes: tuple[int, int], dtype=torch.float16
) -> Network:
    return Network(name, "half", "float16", module, inputs, sizes, dtype=dtype)


def baskets(size: int) -> Inputs:
    return {"seen": torch.randint(0, 5000, (64, size)), "candidate": torch.randint(1, 5000, (64,))}


LLAMA = {"positions": "halves", "is_gated": True, "kv_heads": 2}
NETWORKS = [
    decoder("gpt", tokens(4000), (32, 96), 14, positions="learned"),
    decoder("gpt_past", with_past(8), (32, 200), 14, positions="learned"),
    decoder("llama", tokens(4000), (32, 96), 17, **LLAMA),
    decoder("llama_past", with_past(2), (32, 200), 15, **LLAMA),
    decoder("gptj", tokens(4000), (32, 96), 14, positions="pairs", is_parallel=True),
    decoder("bloom_past", with_past(8), (32, 200), 17, positions="slopes"),
    decoder("falcon_chunk", with_past(1, new=16), (32, 128), 15, positions="halves",
            is_parallel=True, kv_heads=1),
    Network("experts", "decoder", "transformer", experts, tokens(4000), (32, 96)),
    Network("interests", "recurrent", "transformer", Interests, baskets, (20, 50)),
    half("half_resnext", lambda: convolutional.grouped(32, 0, False), image(), (128, 192)),
    half("half_mobilenet", mobile.mobilenet_v3, image(), (128, 224)),
    half("half_densenet", convolutional.densenet, image(), (96, 160)),
    half("half_vit", lambda: vision.Vit(224, 256), image(), (128, 224)),
    half("half_llama", lambda: Decoder(**LLAMA), tokens(4000), (32, 96)),
    half("half_gpt_past", lambda: Decoder("learned"), with_past(8), (32, 200)),
    half("half_diffusion", pictures.DiffusionUnet, pictures.latent, (16, 32)),
    half("half_quartznet", speech.quartznet, sequence(1, 64, -1), (160, 400)),
    half("bfloat16_weights_vit", lambda: StoredHalf(vision.Vit(224, 256)), image(), (128, 224),
         torch.float32),
    half("bfloat16_weights_llama", lambda: StoredHalf(Decoder(**LLAMA)), tokens(4000), (32, 96),
         torch.float32),
    half("bfloat16_vit", lambda: vision.Vit(224), image(), (128, 224), torch.bfloat16),
]  # fmt: skip
