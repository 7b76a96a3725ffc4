"""The two layouts in which Mimi is published, and the way between them.

Conventions: *native* is Kyutai's file, as the package `moshi` and the Rust port read it. *HF* is what
`transformers.MimiModel.from_pretrained` reads, in the flat names of the published repository. The numbers are the same
but for attention: HF turns the halves of a head by the rotary positions where native turns neighbouring pairs, so that
the rows of queries and keys stand in another order, and the packed projection is three tensors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from harness.errors import ParityError

HEADS = 8
NATIVE_FILE = "native.safetensors"
HF_FOLDER = "hf"
PACKED = ".self_attn.in_proj_weight"
CODEBOOKS_OF = {"rvq_first": range(1), "rvq_rest": range(31)}

Array = NDArray[Any]
# From native to HF, in order.
RENAMED = (
    (r"^(encoder|decoder)\.model\.(.*?)\.(conv|convtr)\.\3\.", r"\1.layers.\2.conv."),
    (r"^(encoder|decoder)_transformer\.transformer\.", r"\1_transformer."),
    (r"\.self_attn\.out_proj\.", ".self_attn.o_proj."),
    (r"\.norm1\.", ".input_layernorm."),
    (r"\.norm2\.", ".post_attention_layernorm."),
    (r"\.linear1\.", ".mlp.fc1."),
    (r"\.linear2\.", ".mlp.fc2."),
    (r"\.layer_scale_1\.", ".self_attn_layer_scale."),
    (r"\.layer_scale_2\.", ".mlp_layer_scale."),
    (r"^quantizer\.rvq_first\.", "quantizer.semantic_residual_vector_quantizer."),
    (r"^quantizer\.rvq_rest\.", "quantizer.acoustic_residual_vector_quantizer."),
    (r"\.vq\.layers\.(\d+)\._codebook\._initialized$", r".layers.\1.codebook.initialized"),
    (r"\.vq\.layers\.(\d+)\._codebook\.embedding_sum$", r".layers.\1.codebook.embed_sum"),
    (r"\.vq\.layers\.(\d+)\._codebook\.cluster_usage$", r".layers.\1.codebook.cluster_usage"),
    (r"^downsample\.conv\.conv\.conv\.", "downsample.conv."),
    (r"^upsample\.convtr\.convtr\.convtr\.", "upsample.conv."),
)


def shapes() -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor of the native layout."""
    made: dict[str, tuple[int, ...]] = {}

    def convolution(name: str, out: int, inside: int, kernel: int) -> None:
        made[f"{name}.weight"], made[f"{name}.bias"] = (out, inside, kernel), (out,)

    def block(name: str, channels: int) -> None:
        convolution(f"{name}.block.1.conv.conv", channels // 2, channels, 3)
        convolution(f"{name}.block.3.conv.conv", channels, channels // 2, 1)

    convolution("encoder.model.0.conv.conv", 64, 1, 7)
    convolution("decoder.model.0.conv.conv", 1024, 512, 7)
    for step, stride in enumerate((4, 5, 6, 8)):
        channels = 64 << step
        block(f"encoder.model.{1 + 3 * step}", channels)
        convolution(f"encoder.model.{3 + 3 * step}.conv.conv", 2 * channels, channels, 2 * stride)
    for step, stride in enumerate((8, 6, 5, 4)):
        channels = 1024 >> step
        name = f"decoder.model.{2 + 3 * step}.convtr.convtr"
        made[f"{name}.weight"], made[f"{name}.bias"] = (channels, channels // 2, 2 * stride), (channels // 2,)
        block(f"decoder.model.{3 + 3 * step}", channels // 2)
    convolution("encoder.model.14.conv.conv", 512, 1024, 3)
    convolution("decoder.model.14.conv.conv", 1, 64, 3)
    for part in ("encoder", "decoder"):
        for layer in range(8):
            name = f"{part}_transformer.transformer.layers.{layer}"
            made[f"{name}{PACKED}"] = (1536, 512)
            made[f"{name}.self_attn.out_proj.weight"] = (512, 512)
            made[f"{name}.linear1.weight"], made[f"{name}.linear2.weight"] = (2048, 512), (512, 2048)
            for vector in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"):
                made[f"{name}.{vector}"] = (512,)
            made[f"{name}.layer_scale_1.scale"] = made[f"{name}.layer_scale_2.scale"] = (512,)
    made["downsample.conv.conv.conv.weight"] = (512, 512, 4)
    made["upsample.convtr.convtr.convtr.weight"] = (512, 1, 4)
    for chain, indices in CODEBOOKS_OF.items():
        made[f"quantizer.{chain}.input_proj.weight"] = (256, 512, 1)
        made[f"quantizer.{chain}.output_proj.weight"] = (512, 256, 1)
        for index in indices:
            name = f"quantizer.{chain}.vq.layers.{index}._codebook"
            made[f"{name}._initialized"] = (1,)
            made[f"{name}.cluster_usage"], made[f"{name}.embedding_sum"] = (2048,), (2048, 256)
    return made


def to_hf(native: Mapping[str, Array]) -> dict[str, Array]:
    """The tensors of the native layout in HF's names and order of rows."""
    made: dict[str, Array] = {}
    for name, tensor in native.items():
        if name.endswith(PACKED):
            head = _renamed(name.removesuffix(PACKED)) + ".self_attn"
            queries, keys, values = np.split(tensor, 3)
            made[f"{head}.q_proj.weight"], made[f"{head}.k_proj.weight"] = _halves(queries), _halves(keys)
            made[f"{head}.v_proj.weight"] = values
        else:
            made[_renamed(name)] = tensor
    return made


def to_native(hf: Mapping[str, Array]) -> dict[str, Array]:
    """The tensors of the HF layout in native names and order of rows. Raises KeyError for one that is missing."""
    made: dict[str, Array] = {}
    for name in shapes():
        if name.endswith(PACKED):
            head = _renamed(name.removesuffix(PACKED)) + ".self_attn"
            queries, keys, values = (hf[f"{head}.{letter}_proj.weight"] for letter in "qkv")
            made[name] = np.concatenate([_pairs(queries), _pairs(keys), values])
        else:
            made[name] = hf[_renamed(name)]
    return made


def write(native: Mapping[str, Array], folder: Path) -> None:
    """Both layouts into a folder: `native.safetensors`, `hf/model.safetensors` and its `hf/config.json`."""
    save_file(dict(native), folder / NATIVE_FILE)
    (folder / HF_FOLDER).mkdir()
    save_file(to_hf(native), folder / HF_FOLDER / "model.safetensors", {"format": "pt"})
    # The sizes are the package's own defaults.
    config = {"architectures": ["MimiModel"], "model_type": "mimi", "num_quantizers": 32}
    text = json.dumps(config, indent=1, sort_keys=True)
    (folder / HF_FOLDER / "config.json").write_text(text + "\n", encoding="utf-8")


def prepare(source: Path, folder: Path) -> None:
    """Check a user's checkpoint, a file or a folder in either layout, and write it in both.

    Raises ParityError when there is no such file, when tensors are missing, and when one has another shape.
    """
    path = _weights_file(source)
    remedy = "name a Mimi checkpoint in native or HF layout"
    try:
        found = {_published(name): tensor for name, tensor in load_file(path).items()}
    except (OSError, SafetensorError) as error:
        raise ParityError(path, f"cannot be read ({error})", "a safetensors file", remedy) from error
    is_native = any(name.startswith("encoder.model.") for name in found)
    wanted = shapes() if is_native else _hf_shapes()
    for name, shape in wanted.items():
        if name not in found:
            raise ParityError(path, f"{name} is missing", f"a tensor {list(shape)}", remedy)
        if found[name].shape != shape:
            raise ParityError(path, f"{name} is {list(found[name].shape)}", f"{list(shape)}", remedy)
    write({name: found[name] for name in wanted} if is_native else to_native(found), folder)


def _weights_file(source: Path) -> Path:
    if source.is_file():
        return source
    files = sorted(source.glob("*.safetensors")) or sorted((source / HF_FOLDER).glob("*.safetensors"))
    if not files:
        raise ParityError(source, "no *.safetensors file", "a Mimi checkpoint", "name the file")
    return next((path for path in files if path.name.startswith(("tokenizer-", "native"))), files[0])


def _published(name: str) -> str:
    """The published name of what the package itself writes under another."""
    name = name.replace(".self_attn.in_projs.0.weight", PACKED)
    return name.replace(".self_attn.out_projs.0.", ".self_attn.out_proj.")


def _hf_shapes() -> dict[str, tuple[int, ...]]:
    made: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes().items():
        if name.endswith(PACKED):
            head = _renamed(name.removesuffix(PACKED)) + ".self_attn"
            made.update({f"{head}.{letter}_proj.weight": (512, 512) for letter in "qkv"})
        else:
            made[_renamed(name)] = shape
    return made


def _renamed(name: str) -> str:
    for pattern, replacement in RENAMED:
        name = re.sub(pattern, replacement, name)
    return name


def _halves(rows: Array) -> Array:
    """Of each head first the even rows, then the odd ones. [512, 512]."""
    return np.ascontiguousarray(rows.reshape(HEADS, -1, 2, rows.shape[1]).swapaxes(1, 2)).reshape(rows.shape)


def _pairs(rows: Array) -> Array:
    """The way back from halves. [512, 512]."""
    return np.ascontiguousarray(rows.reshape(HEADS, 2, -1, rows.shape[1]).swapaxes(1, 2)).reshape(rows.shape)
