"""The file in which Kyutai publishes Mimi: what our port reads of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from torch import Tensor

from harness.errors import ParityError

CODEBOOKS = 32
LAYERS = 8
# Index in the file: (kind, stride).
ENCODER = {0: ("conv", 1), 1: ("block", 1), 3: ("conv", 4), 4: ("block", 1), 6: ("conv", 5), 7: ("block", 1),
           9: ("conv", 6), 10: ("block", 1), 12: ("conv", 8), 14: ("conv", 1)}  # fmt: skip
DECODER = {0: ("conv", 1), 2: ("up", 8), 3: ("block", 1), 5: ("up", 6), 6: ("block", 1), 8: ("up", 5), 9: ("block", 1),
           11: ("up", 4), 12: ("block", 1), 14: ("conv", 1)}  # fmt: skip

Weights = Mapping[str, Tensor]


def shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor that is read."""
    for part, plan in (("encoder", ENCODER), ("decoder", DECODER)):
        channels = 1 if part == "encoder" else 512
        for index, (kind, stride) in plan.items():
            name = f"{part}.model.{index}"
            if kind == "block":
                yield from _pair(f"{name}.block.1.conv.conv", (channels // 2, channels, 3), channels // 2)
                yield from _pair(f"{name}.block.3.conv.conv", (channels, channels // 2, 1), channels)
            elif kind == "up":
                yield from _pair(f"{name}.convtr.convtr", (channels, channels // 2, 2 * stride), channels // 2)
                channels //= 2
            else:
                wide = {("encoder", 0): 64, ("encoder", 14): 512, ("decoder", 0): 1024, ("decoder", 14): 1}
                out = wide.get((part, index), 2 * channels)
                kernel = 2 * stride if stride > 1 else (7 if index == 0 else 3)
                yield from _pair(f"{name}.conv.conv", (out, channels, kernel), out)
                channels = out
        for layer in range(LAYERS):
            name = f"{part}_transformer.transformer.layers.{layer}"
            yield f"{name}.self_attn.in_proj_weight", (1536, 512)
            yield f"{name}.self_attn.out_proj.weight", (512, 512)
            yield f"{name}.linear1.weight", (2048, 512)
            yield f"{name}.linear2.weight", (512, 2048)
            for norm in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"):
                yield f"{name}.{norm}", (512,)
            yield f"{name}.layer_scale_1.scale", (512,)
            yield f"{name}.layer_scale_2.scale", (512,)
    yield "downsample.conv.conv.conv.weight", (512, 512, 4)
    yield "upsample.convtr.convtr.convtr.weight", (512, 1, 4)
    for chain, count in (("quantizer.rvq_first", 1), ("quantizer.rvq_rest", CODEBOOKS - 1)):
        yield f"{chain}.input_proj.weight", (256, 512, 1)
        yield f"{chain}.output_proj.weight", (512, 256, 1)
        for index in range(count):
            yield f"{chain}.vq.layers.{index}._codebook.cluster_usage", (2048,)
            yield f"{chain}.vq.layers.{index}._codebook.embedding_sum", (2048, 256)


def load_weights(path: Path) -> dict[str, Tensor]:
    """Every tensor of the published file that is used. Raises ParityError for one that is missing or misshapen."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    remedy = "name a Mimi checkpoint in native layout"
    try:
        found = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ParityError(path, f"cannot be read ({error})", "a safetensors file", remedy) from error
    weights = {}
    for name, shape in shapes():
        if name not in found:
            raise ParityError(path, f"{name} is missing", f"a tensor {list(shape)}", remedy)
        if tuple(found[name].shape) != shape:
            raise ParityError(path, f"{name} is {list(found[name].shape)}", f"{list(shape)}", remedy)
        weights[name] = found[name].float()
    return weights


def weights_of_codebook(w: Weights, index: int) -> tuple[Tensor, Tensor]:
    """embedding_sum and cluster_usage of codebook 0, the semantic one, or of one of the acoustic 1 to 31."""
    name = "quantizer.rvq_first.vq.layers.0" if index == 0 else f"quantizer.rvq_rest.vq.layers.{index - 1}"
    return w[f"{name}._codebook.embedding_sum"], w[f"{name}._codebook.cluster_usage"]


def _pair(name: str, shape: tuple[int, ...], bias: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", shape
    yield f"{name}.bias", (bias,)
