"""Recurrent networks and networks for speech."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from networks.network import Cat, Gate, Network, image, residual, sequence, stack, tokens
from networks.vision import Attention, layer, mlp


class Turn(nn.Module):
    """[N, C, T] to [N, T, C], and back."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


class Recurrent(nn.Module):
    """A recurrent layer between an embedding or projection and a head. The states are inputs on
    request.
    """

    def __init__(self, before: nn.Module, body: nn.RNNBase, classes: int) -> None:
        super().__init__()
        self.before = before
        self.body = body
        self.head = nn.Linear(body.hidden_size * (2 if body.bidirectional else 1), classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.before(x))[0])


class Streaming(nn.Module):
    """A GRU between dense layers, as in noise suppression. Its state is an input and an output."""

    def __init__(self) -> None:
        super().__init__()
        self.before = stack(nn.Linear(257, 256), nn.ReLU())
        self.after = stack(nn.Linear(256, 257), nn.Sigmoid())
        self.body = nn.GRU(256, 256, 2, batch_first=True)

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        y, state = self.body(self.before(torch.log1p(x.abs())), state)
        return x * self.after(y), state


class Crnn(nn.Module):
    """A reader of text lines: convolutions down to one row, then a bidirectional LSTM."""

    def __init__(self) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for channels, out, pool in ((1, 48, 2), (48, 96, 2), (96, 192, (2, 1)), (192, 256, (4, 1))):
            parts.extend(
                [
                    nn.Conv2d(channels, out, 3, padding=1),
                    nn.BatchNorm2d(out),
                    nn.ReLU(),
                    nn.MaxPool2d(pool),
                ]
            )
        self.body = stack(parts)
        self.lstm = nn.LSTM(256, 128, 2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(256, 97)

    def forward(self, image: Tensor) -> Tensor:
        x = self.body(image).squeeze(2).transpose(1, 2)
        return self.head(self.lstm(x)[0]).log_softmax(-1)


class DeepSpeech(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        first = [
            nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
        ]
        self.body = stack(
            first,
            nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
        )
        self.gru = nn.GRU(32 * 20, 192, 2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(384, 29)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x.transpose(1, 2).unsqueeze(1))
        y = y.flatten(1, 2).transpose(1, 2)
        return self.head(self.gru(y)[0]).log_softmax(-1)


class Half(nn.Module):
    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = stack(*body)

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.5 * self.body(x)


class RelativeAttention(nn.Module):
    """The attention of conformers, from Transformer-XL: a bias by distance, computed by padding and
    slicing.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.place = nn.Linear(width, width, bias=False)
        self.u, self.v = (nn.Parameter(torch.randn(heads, width // heads) * 0.1) for _ in range(2))
        self.register_buffer("table", torch.randn(1, 1023, width) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        query, key, value = (
            part.view(n, length, self.heads, -1) for part in self.qkv(x).chunk(3, -1)
        )
        far = self.place(self.table[:, 512 - length : 511 + length]).view(
            1, -1, self.heads, width // self.heads
        )
        content = (query + self.u).transpose(1, 2) @ key.permute(0, 2, 3, 1)
        place = (query + self.v).transpose(1, 2) @ far.permute(0, 2, 3, 1)
        place = (
            F.pad(place, (1, 0))
            .view(n, self.heads, -1, length)[:, :, 1:]
            .reshape(n, self.heads, length, -1)
        )
        scores = (content + place[..., :length]) / (width // self.heads) ** 0.5
        return self.out(
            (scores.softmax(-1) @ value.transpose(1, 2)).transpose(1, 2).reshape(n, length, width)
        )


def conformer(width: int = 144, depth: int = 3) -> nn.Module:
    def block() -> list[nn.Module]:
        first = [
            nn.Conv1d(width, 2 * width, 1),
            nn.GLU(1),
            nn.Conv1d(width, width, 15, padding=7, groups=width),
        ]
        local = residual(
            nn.LayerNorm(width),
            Turn(),
            *first,
            nn.BatchNorm1d(width),
            nn.SiLU(),
            nn.Conv1d(width, width, 1),
            Turn(),
        )
        feed = [Half(nn.LayerNorm(width), mlp(width, nn.SiLU)) for _ in range(2)]
        return [
            feed[0],
            residual(nn.LayerNorm(width), RelativeAttention(width, 4)),
            local,
            feed[1],
            nn.LayerNorm(width),
        ]

    early = [
        nn.Conv1d(80, width, 3, 2, 1),
        nn.ReLU(),
        nn.Conv1d(width, width, 3, 2, 1),
        nn.ReLU(),
        Turn(),
    ]
    return stack(early, *(block() for _ in range(depth)), nn.Linear(width, 128), nn.LogSoftmax(-1))


def wav2vec(width: int = 192) -> nn.Module:
    """A stack of strided Conv1d on the wave, a convolution for the positions, and transformer
    layers.
    """
    front = [nn.Conv1d(1, 128, 10, 5, bias=False), nn.GroupNorm(128, 128), nn.GELU()]
    for kernel in (3, 3, 3, 3, 2, 2):
        front.extend([nn.Conv1d(128, 128, kernel, 2, bias=False), nn.GELU()])
    places = residual(Turn(), nn.Conv1d(width, width, 31, padding=15, groups=16), nn.GELU(), Turn())
    layers = [layer(width, 4, written_out=False) for _ in range(4)]
    return stack(
        front,
        Turn(),
        nn.LayerNorm(128),
        nn.Linear(128, width),
        places,
        nn.LayerNorm(width),
        layers,
        nn.Linear(width, 32),
    )


def quartznet(width: int = 192) -> nn.Module:
    def unit(kernel: int, act: bool = True) -> list[nn.Module]:
        pair = [
            nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width, bias=False),
            nn.Conv1d(width, width, 1, bias=False),
        ]
        return [*pair, nn.BatchNorm1d(width), *([nn.ReLU()] if act else [])]

    blocks = [[residual(*unit(k), *unit(k), *unit(k, False)), nn.ReLU()] for k in (33, 39, 51)]
    stem = [nn.Conv1d(64, width, 33, 2, 16, bias=False), nn.BatchNorm1d(width), nn.ReLU()]
    return stack(stem, *blocks, nn.Conv1d(width, 29, 1), nn.LogSoftmax(1))


class Pooling(nn.Module):
    """Mean and deviation over time, weighted by attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weights = stack(
            nn.Conv1d(width, 64, 1), nn.Tanh(), nn.Conv1d(64, width, 1), nn.Softmax(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        weights = self.weights(x)
        mean = (x * weights).sum(2)
        variance = (x * x * weights).sum(2) - mean * mean
        return torch.cat((mean, variance.clamp(min=1e-6).sqrt()), 1)


def ecapa(width: int = 192) -> nn.Module:
    def unit(channels: int, kernel: int, dilation: int = 1) -> list[nn.Module]:
        pad = dilation * (kernel // 2)
        return [
            nn.Conv1d(channels, width, kernel, 1, pad, dilation),
            nn.ReLU(),
            nn.BatchNorm1d(width),
        ]

    def block(dilation: int) -> nn.Module:
        squeeze = [
            nn.AdaptiveAvgPool1d(1),
            nn.Conv1d(width, 48, 1),
            nn.ReLU(),
            nn.Conv1d(48, width, 1),
            nn.Sigmoid(),
        ]
        return residual(
            *unit(width, 1),
            *unit(width, 3, dilation),
            *unit(width, 1),
            Gate(nn.Identity(), stack(squeeze)),
        )

    joined = Cat(block(2), block(3), block(4))
    last = [Pooling(384), nn.BatchNorm1d(768), nn.Linear(768, 192)]
    return stack(unit(80, 5), joined, nn.Conv1d(3 * width, 384, 1), nn.ReLU(), last)


class ConvTasNet(nn.Module):
    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, width, 16, 8, bias=False)
        self.decoder = nn.ConvTranspose1d(width, 1, 16, 8, bias=False)

        def block(dilation: int) -> nn.Module:
            deep = nn.Conv1d(256, 256, 3, padding=dilation, dilation=dilation, groups=256)
            norms = [nn.GroupNorm(1, 256, eps=1e-8) for _ in range(2)]
            return residual(
                nn.Conv1d(width, 256, 1),
                nn.PReLU(),
                norms[0],
                deep,
                nn.PReLU(),
                norms[1],
                nn.Conv1d(256, width, 1),
            )

        blocks = [block(2**k) for k in range(4)]
        self.mask = stack(
            nn.GroupNorm(1, width),
            nn.Conv1d(width, width, 1),
            blocks,
            nn.PReLU(),
            nn.Conv1d(width, 2 * width, 1),
            nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.encoder(x)
        masks = self.mask(y).view(x.shape[0], 2, -1, y.shape[-1])
        parts = masks * y.unsqueeze(1)
        return self.decoder(parts.flatten(0, 1)).view(x.shape[0], 2, -1)


class Wavenet(nn.Module):
    """Gated dilated convolutions with skips."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**k) for k in range(8))
        self.outs = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(8))
        self.last = stack(nn.ReLU(), nn.Conv1d(width, 128, 1), nn.ReLU(), nn.Conv1d(128, 256, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        total = None
        for number, (gate, out) in enumerate(zip(self.gates, self.outs, strict=True)):
            left, right = gate(F.pad(x, (2**number, 0))).chunk(2, 1)
            y = out(torch.tanh(left) * torch.sigmoid(right))
            total = y if total is None else total + y
            x = x + y
        return self.last(total)


class Pointer(nn.Module):
    """A sequence in an LSTM, and then attention from its last state to all states, as in taggers
    and rankers.
    """

    def __init__(self, width: int = 160) -> None:
        super().__init__()
        self.embed = nn.Embedding(2000, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.attention = Attention(width, 4, is_joined=False)
        self.head = nn.Linear(2 * width, 50)

    def forward(self, ids: Tensor) -> Tensor:
        states, (last, _) = self.lstm(self.embed(ids))
        query = last[-1].unsqueeze(1)
        return self.head(torch.cat((query, self.attention(query, states)), -1)).squeeze(1)


def recurrent(name: str, module, inputs, sizes: tuple[int, int], opset: int = 17) -> Network:
    return Network(name, "recurrent", "recurrent", module, inputs, sizes, opset)


def speech(
    name: str, kind: str, module, inputs, sizes: tuple[int, int], opset: int = 17
) -> Network:
    return Network(name, "speech", kind, module, inputs, sizes, opset)


def streaming(size: int) -> dict[str, Tensor]:
    return {"x": torch.randn(1, size, 257), "state": torch.zeros(2, 1, 256)}


NETWORKS = [
    recurrent(
        "gru",
        lambda: Recurrent(nn.Linear(40, 192), nn.GRU(192, 192, 2, batch_first=True), 12),
        sequence(1, -1, 40),
        (50, 120),
        11,
    ),
    recurrent(
        "lstm_language",
        lambda: Recurrent(nn.Embedding(4000, 256), nn.LSTM(256, 320, 2, batch_first=True), 4000),
        tokens(4000),
        (24, 64),
        13,
    ),
    recurrent(
        "bilstm_tagger",
        lambda: Recurrent(
            nn.Embedding(4000, 192), nn.LSTM(192, 160, 2, batch_first=True, bidirectional=True), 20
        ),
        tokens(4000, 4),
        (24, 64),
    ),
    recurrent("gru_streaming", Streaming, streaming, (20, 60), 14),
    recurrent("lstm_pointer", Pointer, tokens(2000, 2), (32, 80)),
    recurrent("deepspeech", DeepSpeech, sequence(1, -1, 80), (80, 160), 12),
    recurrent(
        "crnn",
        Crnn,
        lambda size: {"image": image(1)(32)["image"].repeat(1, 1, 1, size // 32)},
        (128, 320),
    ),
    speech("conformer", "transformer", conformer, sequence(1, 80, -1), (160, 320), 14),
    speech("wav2vec", "transformer", wav2vec, sequence(1, 1, -1), (8000, 16000)),
    speech("quartznet", "cnn", quartznet, sequence(1, 64, -1), (160, 400), 11),
    speech("ecapa", "cnn", ecapa, sequence(2, 80, -1), (150, 300)),
    speech("conv_tasnet", "cnn", ConvTasNet, sequence(1, 1, -1), (4000, 8000), 13),
    speech("wavenet", "cnn", Wavenet, sequence(1, 1, -1), (2000, 4000)),
]
