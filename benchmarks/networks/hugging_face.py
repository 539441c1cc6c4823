"""Networks of the package transformers with random configurations. Different releases of the
package export different graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from networks.network import Inputs, Network, image, masked_tokens, sequence

VOCABULARY = 4000


class Called(nn.Module):
    """A model of transformers that is called with positional arguments. It returns all tensors in
    its results.

    Inputs named key0, value0, key1 … are its past.
    """

    def __init__(self, model: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        arguments = dict(zip(self.names, inputs, strict=True))
        past = [arguments.pop(name) for name in self.names if name.startswith(("key", "value"))]
        if past:
            arguments["past_key_values"] = tuple(zip(past[::2], past[1::2], strict=True))
        return tuple(tensors(self.model(**arguments, return_dict=False)))


def tensors(found: Any) -> list[Tensor]:
    if isinstance(found, Tensor):
        return [found]
    return (
        [tensor for part in found for tensor in tensors(part)]
        if isinstance(found, tuple | list)
        else []
    )


def past(kv_heads: int, layers: int = 4) -> Callable[[int], Inputs]:
    def make(size: int) -> Inputs:
        kept = {
            f"{kind}{number}": torch.randn(1, kv_heads, size, 32)
            for number in range(layers)
            for kind in ("key", "value")
        }
        mask = torch.ones(1, size + 1, dtype=torch.int64)
        return {"input_ids": torch.randint(0, VOCABULARY, (1, 1)), "attention_mask": mask, **kept}

    return make


def both_sides(size: int) -> Inputs:
    given = masked_tokens(VOCABULARY)(size)
    return {**given, "decoder_input_ids": torch.randint(0, VOCABULARY, (2, size // 2))}


def spectrum(size: int) -> Inputs:
    return {
        "input_features": torch.randn(1, 80, 2 * size),
        "decoder_input_ids": torch.randint(0, VOCABULARY, (1, 12)),
    }


def pixels(size: int) -> Inputs:
    return {"pixel_values": image()(size)["image"]}


def wave(size: int) -> Inputs:
    return {"input_values": sequence(1, -1)(size)["x"]}


def network(
    model: str,
    opset: int,
    inputs: Callable[[int], Inputs],
    sizes: tuple[int, int],
    suffix: str = "",
    dtype: torch.dtype = torch.float32,
    **config: Any,
) -> Network:
    def make() -> nn.Module:
        kind = getattr(transformers, model)
        # the tracing exporter supports no other
        written_out = {"attn_implementation": "eager"} if opset < 14 else {}
        return Called(
            kind(kind.config_class(**config, **written_out)).eval(), list(inputs(sizes[0]))
        )

    release = "".join(transformers.__version__.split(".")[:2])
    name = f"hf{release}_{model.lower().removesuffix('model')}{suffix}"
    kind, group = (
        ("float16", "hugging face half")
        if dtype is torch.float16
        else ("transformer", "hugging face")
    )
    return Network(name, group, kind, make, inputs, sizes, opset, dtype)


TEXT = {"vocab_size": VOCABULARY}
BERT = {
    **TEXT,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "intermediate_size": 1024,
}
GPT2 = {
    **TEXT,
    "n_embd": 256,
    "n_layer": 4,
    "n_head": 8,
    "n_positions": 512,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
LLAMA = {**BERT, "num_key_value_heads": 2, "use_cache": False}
BART = {
    **TEXT, "d_model": 256, "encoder_layers": 3, "decoder_layers": 3, "encoder_ffn_dim": 1024,
    "decoder_ffn_dim": 1024, "encoder_attention_heads": 8, "decoder_attention_heads": 8,
    "use_cache": False,
}  # fmt: skip
MASKED = masked_tokens(VOCABULARY)
NETWORKS = [
    network("BertModel", 11, MASKED, (32, 96), **BERT),
    network("DistilBertModel", 12, MASKED, (32, 96), **TEXT, dim=256, n_layers=4, n_heads=8,
            hidden_dim=1024),
    network("RobertaModel", 13, MASKED, (32, 96), **BERT, pad_token_id=1),
    network("AlbertModel", 14, MASKED, (32, 96), **BERT, embedding_size=128),
    network("MPNetModel", 12, MASKED, (32, 96), **BERT),
    network("ElectraModel", 18, MASKED, (32, 96), **BERT, embedding_size=128,
            hidden_act="gelu_new"),
    network("DebertaV2Model", 15, MASKED, (32, 96), **BERT, relative_attention=True,
            pos_att_type=["c2p", "p2c"]),
    network("GPT2LMHeadModel", 11, MASKED, (32, 96), **GPT2, use_cache=False),
    network("GPT2LMHeadModel", 13, past(8), (32, 200), "_past", **GPT2),
    network("GPTNeoXModel", 14, MASKED, (32, 96), **BERT, use_cache=False),
    network("LlamaForCausalLM", 13, MASKED, (32, 96), **LLAMA),
    network("LlamaForCausalLM", 14, past(2), (32, 200), "_past", **{**LLAMA, "use_cache": True}),
    network("Qwen2ForCausalLM", 17, MASKED, (32, 96), **LLAMA),
    network("MistralModel", 15, MASKED, (32, 96), **LLAMA),
    network("PhiModel", 14, MASKED, (32, 96), **{**LLAMA, "num_key_value_heads": 8}),
    network("FalconModel", 16, MASKED, (32, 96), **BERT, use_cache=False),
    network("BloomModel", 12, MASKED, (32, 96), **TEXT, hidden_size=256, n_layer=4, n_head=8,
            use_cache=False),
    network("OPTModel", 14, MASKED, (32, 96), **TEXT, hidden_size=256, num_hidden_layers=4,
            num_attention_heads=8, ffn_dim=1024, word_embed_proj_dim=256, use_cache=False),
    network("T5Model", 13, both_sides, (32, 96), **TEXT, d_model=256, d_kv=32, d_ff=1024,
            num_layers=3, num_heads=8, use_cache=False),
    network("BartModel", 12, both_sides, (32, 96), **BART),
    network("WhisperModel", 13, spectrum, (150, 150), **BART, max_source_positions=150,
            pad_token_id=0),
    network("ViTModel", 14, pixels, (224, 224), hidden_size=256, num_hidden_layers=4,
            num_attention_heads=8, intermediate_size=1024),
    network("SwinModel", 13, pixels, (224, 224), embed_dim=48, depths=[2, 2, 2],
            num_heads=[2, 4, 8]),
    network("SegformerForSemanticSegmentation", 12, pixels, (128, 256), num_encoder_blocks=4,
            depths=[1, 1, 1, 1]),
    network("Wav2Vec2Model", 14, wave, (8000, 16000), hidden_size=256, num_hidden_layers=4,
            num_attention_heads=8, intermediate_size=1024, conv_dim=[128] * 7,
            num_conv_pos_embeddings=32),
    network("BertModel", 14, MASKED, (32, 96), "_half", torch.float16, **BERT),
    network("LlamaForCausalLM", 17, MASKED, (32, 96), "_half", torch.float16, **LLAMA),
]  # fmt: skip
