"""The Rust port of Mimi on candle, from PyPI: the first 8 codebooks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FRAME_SAMPLES = 1920


class Rustymimi:
    """`rustymimi.Tokenizer`, which reads the native file. Source: rustymimi 0.4.1."""

    def __init__(self, *, checkpoint: Path) -> None:
        from importlib.metadata import version

        import rustymimi

        self.version = f"rustymimi {version('rustymimi')}"
        self._tokenizer = rustymimi.Tokenizer(str(Path(checkpoint) / "native.safetensors"))

    def encode(self, samples: NDArray[np.float32]) -> dict[str, NDArray[np.int64]]:
        """[N] to codes [8, T]; the input is padded to whole frames."""
        padded = np.pad(samples, (0, -len(samples) % FRAME_SAMPLES))
        return {"codes": self._tokenizer.encode(padded[None, None])[0].astype(np.int64)}

    def decode(self, codes: NDArray[np.int64]) -> NDArray[np.float32]:
        """[8, T] to [1920 T]."""
        return np.asarray(self._tokenizer.decode(codes[None].astype(np.uint32))[0, 0])
