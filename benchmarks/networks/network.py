"""The description of a network, and blocks that several families of networks share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Inputs = dict[str, Tensor]


@dataclass(frozen=True)
class Network:
    """One network. Several models of it are exported, and all of them belong to the same half."""

    name: str
    group: str  # both halves get about the same number of networks of each group
    kind: str  # networks whose ratios are averaged together: cnn, transformer, recurrent or float16
    module: Callable[[], nn.Module]
    inputs: Callable[[int], Inputs]
    sizes: tuple[int, int]  # the two sizes with which `inputs` is called
    opset: int = 17  # for the tracing exporter; the other one has its own
    dtype: torch.dtype = torch.float32


def image(channels: int = 3, batch: int = 1) -> Callable[[int], Inputs]:
    return lambda size: {"image": torch.randn(batch, channels, size, size)}


def sequence(*shape: int) -> Callable[[int], Inputs]:
    """A sequence of this shape; -1 stands for the size."""
    return lambda size: {"x": torch.randn([size if extent == -1 else extent for extent in shape])}


def tokens(vocabulary: int, batch: int = 1) -> Callable[[int], Inputs]:
    return lambda size: {"ids": torch.randint(0, vocabulary, (batch, size))}


def masked_tokens(vocabulary: int, batch: int = 2) -> Callable[[int], Inputs]:
    """Tokens. The last quarter of the last row is padding."""

    def make(size: int) -> Inputs:
        mask = torch.ones(batch, size, dtype=torch.int64)
        mask[-1, size - size // 4 :] = 0
        return {"input_ids": torch.randint(0, vocabulary, (batch, size)), "attention_mask": mask}

    return make


def cnn(name: str, group: str, module, sizes: tuple[int, int] = (128, 224), **more) -> Network:
    """A network with convolutions that reads pictures."""
    return Network(name, group, "cnn", module, image(), sizes, **more)


def conv(
    channels: int,
    out: int,
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    act: Callable[[], nn.Module] | None = nn.ReLU,
    dilation: int = 1,
) -> nn.Sequential:
    """Convolution, BatchNorm and activation."""
    pad = dilation * (kernel // 2)
    body = [
        nn.Conv2d(channels, out, kernel, stride, pad, dilation, groups, bias=False),
        nn.BatchNorm2d(out),
    ]
    return nn.Sequential(*body, *([act()] if act else []))


def stack(*parts: Any) -> nn.Sequential:
    """These modules, one after the other. Items may be lists of modules."""
    flat: list[nn.Module] = []
    for part in parts:
        flat.extend(part if isinstance(part, list) else [part])
    return nn.Sequential(*flat)


class Parallel(nn.Module):
    """Several branches that read one value."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)


class Cat(Parallel):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class Sum(Parallel):
    def forward(self, x: Tensor) -> Tensor:
        total = self.branches[0](x)
        for branch in self.branches[1:]:
            total = total + branch(x)
        return total


class Gate(Parallel):
    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.branches
        return value(x) * gate(x)


def residual(*body: nn.Module) -> Sum:
    return Sum(nn.Identity(), stack(*body))


def squeeze_excite(
    channels: int, inner: int, act: type[nn.Module] = nn.ReLU, gate: type[nn.Module] = nn.Sigmoid
) -> Gate:
    down = nn.Conv2d(channels, inner, 1)
    up = nn.Conv2d(inner, channels, 1)
    return Gate(nn.Identity(), stack(nn.AdaptiveAvgPool2d(1), down, act(), up, gate()))


def classifier(channels: int, classes: int = 100) -> nn.Sequential:
    return stack(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def settle(module: nn.Module, inputs: Inputs) -> None:
    """Give a network with random weights the statistics of a trained one.

    Scales and shifts of normalizations differ from channel to channel. Running means and variances
    are those of the inputs.
    """
    averaging = [
        part for part in module.modules() if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d)
    ]
    for part in module.modules():
        if (
            isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d | nn.GroupNorm | nn.LayerNorm)
            and part.weight is not None
        ):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, 0.0, 0.2)
    module.eval()
    for part in averaging:
        part.train()
        part.momentum = None  # average over all inputs
    with torch.no_grad():
        for _ in range(2 if averaging else 0):
            noisy = {
                name: value + 0.3 * torch.randn_like(value) if value.is_floating_point() else value
                for name, value in inputs.items()
            }
            module(*noisy.values())
    module.eval()
