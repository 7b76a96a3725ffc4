"""Reference of the family `silero-vad`: the package's own TorchScript model with its own weights.

Conventions: one channel [N] at 16 kHz (chunks of 512) or 8 kHz (256); one probability per chunk, [T] float32.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK_SAMPLES = {16000: 512, 8000: 256}
CONTEXT_SAMPLES = 64


class TorchScript:
    """`silero_vad.load_silero_vad()`. Source: silero-vad 6.2."""

    def __init__(self) -> None:
        import silero_vad
        import torch

        self.version = f"silero-vad {_version('silero-vad')}, torch {torch.__version__}"
        self.checkpoint_digest = hashlib.sha256(
            (files(silero_vad) / "data" / "silero_vad.jit").read_bytes()
        ).hexdigest()
        self._torch = torch
        self._model = silero_vad.load_silero_vad()
        self._rate_hz = 16000

    def start(self, rate_hz: int) -> None:
        """Begin a stream with a fresh state."""
        self._model.reset_states()
        self._rate_hz = rate_hz

    def push(self, chunk: NDArray[np.float32]) -> float:
        """The probability of the next chunk, [512] or [256]."""
        with self._torch.no_grad():
            return float(self._model(self._torch.from_numpy(np.ascontiguousarray(chunk)), self._rate_hz))

    def probabilities(self, samples: NDArray[np.float32], rate_hz: int) -> NDArray[np.float32]:
        """[N] to [T], from a fresh state; the last chunk is zero-padded."""
        self.start(rate_hz)
        chunks = _chunks(samples, CHUNK_SAMPLES[rate_hz])
        return np.array([self.push(chunk) for chunk in chunks], dtype=np.float32)

    def taps(self, samples: NDArray[np.float32], rate_hz: int) -> Mapping[str, NDArray[np.float32]]:
        """What each submodule gives, chunk by chunk, at 16 kHz: see `ports.silero_vad` for names and layouts."""
        torch, model = self._torch, self._model._model
        found: dict[str, list[Any]] = {}
        context, state = torch.zeros(1, CONTEXT_SAMPLES), None
        with torch.no_grad():
            for chunk in _chunks(samples, CHUNK_SAMPLES[rate_hz]):
                values = {"input": torch.cat([context, torch.from_numpy(chunk)[None]], 1)}
                context = values["input"][:, -CONTEXT_SAMPLES:]
                values["spectrum"] = model.stft(values["input"])
                encoded = values["spectrum"]
                for number in range(4):
                    encoded = getattr(model.encoder, str(number))(encoded)
                    values[f"conv{number + 1}"] = encoded
                values["conv4"] = encoded.squeeze(-1)
                state = model.decoder.rnn(values["conv4"], state)
                values["lstm_h"], values["lstm_c"] = state
                # The decoder: dropout, ReLU, convolution, sigmoid; the logit is what the convolution gives.
                hidden = state[0].unsqueeze(-1)
                for number in range(3):
                    hidden = getattr(model.decoder.decoder, str(number))(hidden)
                values["logit"] = hidden.reshape(1)
                values["probability"] = torch.sigmoid(hidden).reshape(1)
                for name, value in values.items():
                    found.setdefault(name, []).append(value[0].numpy())
        return {name: np.stack(values) for name, values in found.items()}


def _chunks(samples: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """[N] to [T, size], the last one zero-padded."""
    return np.pad(samples, (0, -len(samples) % size)).reshape(-1, size)


def _version(package: str) -> str:
    import importlib.metadata

    return importlib.metadata.version(package)
