"""The checkpoint `mimi-fitted`: Mimi at full size, made from integers, with the same bytes on every machine.

Conventions: every weight is an integer of a counter-based generator, scaled by one float32 factor for its tensor, so
that no machine rounds otherwise. Codebook entries are mean + spread · noise, with mean and spread per dimension from
`golden/checkpoints/mimi/codebooks.safetensors`, which `fit.py` beside it measured on the golden clips.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from harness.provenance import PROJECT
from references import mimi_layout

NAME = "mimi-fitted"
STATISTICS = PROJECT / "golden" / "checkpoints" / "mimi" / "codebooks.safetensors"
DIGESTS: Mapping[str, str] = {
    "hf/config.json": "d7701cbcaf61068c354a03a6e2ac8fb6c4956085f8777ed127f439ad0ab63129",
    "hf/model.safetensors": "a4974f4b10cccc48360ca0b209b8c42cfc186cd5c86c1a4209d0e20cac0e3932",
    "native.safetensors": "9580b15fe617d874f25502e3d80cc95699d4336d7439d774e3f6e81fb8ee82a5",
}
SEED = 20261207
UNIT = 3.0**0.5  # the sum of four uniform numbers has a variance of 1/3
DEAD_USAGE = 2.0**-18  # below the clamp of 1e-5
DEAD_OF = 16

Array = NDArray[np.float32]


def make(folder: Path) -> None:
    """Write `native.safetensors` and `hf/` into an empty folder."""
    mimi_layout.write(native(load_file(STATISTICS)), folder)


def native(statistics: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
    """Every tensor. statistics: `mean` and `spread`, [32, 256] each."""
    made = {name: _plain(name, shape) for name, shape in mimi_layout.shapes().items() if "._codebook." not in name}
    for index in range(32):
        made.update(codebook(index, statistics["mean"][index], statistics["spread"][index]))
    return made


def codebook(index: int, mean: Array, spread: Array) -> dict[str, Array]:
    """The three tensors of one codebook, of which one entry in 16 was used less often than the clamp allows."""
    name = "quantizer.rvq_first.vq.layers.0" if index == 0 else f"quantizer.rvq_rest.vq.layers.{index - 1}"
    name += "._codebook"
    entries = mean + spread * noise(name, (2048, 256))
    usage = (1 + np.abs(noise(f"{name}.usage", (2048,)))).astype(np.float32)
    usage[::DEAD_OF] = DEAD_USAGE
    counted = np.maximum(usage, np.float32(1e-5))
    return {
        f"{name}._initialized": np.ones(1, np.float32),
        f"{name}.cluster_usage": usage,
        f"{name}.embedding_sum": (entries * counted[:, None]).astype(np.float32),
    }


def noise(name: str, shape: tuple[int, ...]) -> Array:
    """Numbers of mean 0 and variance 1 within ±3.5, the same for a name on every machine."""
    words = np.random.Philox(key=[SEED, zlib.crc32(name.encode())]).random_raw(int(np.prod(shape)))
    pieces = words.view(np.uint16).reshape(-1, 4).sum(1, dtype=np.int32)
    return ((pieces - 131070).astype(np.float32) * np.float32(UNIT / 65536)).reshape(shape)


def _plain(name: str, shape: tuple[int, ...]) -> Array:
    if name.endswith(("norm1.weight", "norm2.weight")):
        return 1 + np.float32(0.1) * noise(name, shape)
    if name.endswith(".scale"):
        return np.float32(0.3) + np.float32(0.05) * noise(name, shape)
    if name.endswith("bias"):
        return np.float32(0.02) * noise(name, shape)
    fan_in = shape[0] * 2 if ".convtr." in name and "upsample" not in name else int(np.prod(shape[1:]))
    weight = noise(name, shape) * np.float32(gain(name) / fan_in**0.5)
    if name.endswith("input_proj.weight"):
        # Few dimensions carry most of the signal, as in a trained model.
        weight *= (1 / (1 + np.arange(shape[0], dtype=np.float32) / 4))[:, None, None]
    return weight.astype(np.float32)


def gain(name: str) -> float:
    """Factors that keep the signal alive from the waveform to the waveform."""
    for part, factor in GAINS.items():
        if part in name:
            return factor
    return 1.0


GAINS = {
    "encoder.model.0.": 12.0,
    "encoder.model.14.": 0.1,
    ".block.1.": 1.2,
    ".block.3.": 0.7,
    "encoder.model.": 1.3,
    "downsample": 4.0,
    "upsample": 1.4,
    "in_proj": 1.5,
    "output_proj": 0.3,
    "decoder.model.0.": 3.0,
    "decoder.model.14.": 0.08,
    "decoder.model.": 1.3,
}
