"""Reference of the family `silero-vad`: the package's own TorchScript model with its own weights.

Conventions: one channel [N] at 16 kHz (chunks of 512) or 8 kHz (256); one probability per chunk, [T] float32.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK_SAMPLES = {16000: 512, 8000: 256}
CONTEXT_SAMPLES = 64
# The package ships other trainings of the same network beside the one it loads: see docs/decisions/silero-weights.md.
FILES = {"safetensors": "silero_vad_16k.safetensors", "half-onnx": "silero_vad_half.onnx"}
# What whisper.cpp's port does: no context, and 64 reflected samples on both sides of the bare chunk.
SYMMETRIC_PADDING_BUG = "symmetric-padding-bug"
SAFETENSORS_LAYERS = {
    "stft_conv.weight": "stft.forward_basis_buffer",
    "lstm_cell": "decoder.rnn",
    "final_conv": "decoder.decoder.2",
    **{f"conv{number + 1}": f"encoder.{number}.reparam_conv" for number in range(4)},
}


class TorchScript:
    """`silero_vad.load_silero_vad()`. Source: silero-vad 6.2.

    variant: empty for the model as published; `safetensors` and `half-onnx` put the 16 kHz weights of those files of
    the package into the same network; `symmetric-padding-bug` feeds it as whisper.cpp does, at 16 kHz.
    """

    def __init__(self, variant: str = "") -> None:
        import silero_vad
        import torch

        self.version = f"silero-vad {_version('silero-vad')}, torch {torch.__version__}"
        path = Path(str(files(silero_vad) / "data" / FILES.get(variant, "silero_vad.jit")))
        self.checkpoint_digest = hashlib.sha256(path.read_bytes()).hexdigest()
        self._torch = torch
        self._model = silero_vad.load_silero_vad()
        if variant in FILES:
            own = self._model._model.state_dict()
            other = _read_weights(path)
            if own.keys() != other.keys():
                raise RuntimeError(f"{path}: weights {sorted(own.keys() ^ other.keys())} are on one side only")
            for name, weight in own.items():
                weight.copy_(torch.from_numpy(other[name].copy()))
        self._rate_hz = 16000
        if variant == SYMMETRIC_PADDING_BUG:
            self.start, self.push = self._start_without_context, self._push_without_context  # type: ignore[method-assign]

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

    def _start_without_context(self, rate_hz: int) -> None:
        self._state = None
        if rate_hz != 16000:
            raise ValueError(f"{rate_hz} Hz; the variant {SYMMETRIC_PADDING_BUG} runs at 16000 Hz")

    def _push_without_context(self, chunk: NDArray[np.float32]) -> float:
        """[512], with 64 reflected samples on either side and none of the chunk before."""
        torch, model = self._torch, self._model._model
        with torch.no_grad():
            padded = torch.nn.functional.pad(torch.from_numpy(chunk)[None], (64, 64), mode="reflect")  # [1, 640]
            spectra = torch.conv1d(padded[:, None], model.stft.forward_basis_buffer, stride=128)  # [1, 258, 4]
            encoded = model.encoder(torch.sqrt(spectra[:, :129] ** 2 + spectra[:, 129:] ** 2))  # [1, 128, 1]
            self._state = model.decoder.rnn(encoded.squeeze(-1), self._state)
            return float(model.decoder.decoder(self._state[0].unsqueeze(-1)))

    def taps(self, samples: NDArray[np.float32], rate_hz: int) -> Mapping[str, NDArray[np.float32]]:
        """What each submodule gives, chunk by chunk, at 16 kHz: see `ports.silero_vad` for names and layouts."""
        if rate_hz != 16000:
            raise ValueError(f"{rate_hz} Hz; taps are of the 16 kHz network")
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


def _read_weights(path: Path) -> dict[str, NDArray[np.float32]]:
    """The 16 kHz weights of a file of the package, under the network's own names."""
    if path.suffix == ".onnx":
        import onnx
        from onnx.numpy_helper import to_array

        return {item.name: to_array(item) for item in onnx.load(path).graph.initializer}
    from safetensors.numpy import load_file

    return {_own_name(name): weight for name, weight in load_file(path).items()}


def _own_name(name: str) -> str:
    """`conv1.weight` to `encoder.0.reparam_conv.weight`."""
    if name in SAFETENSORS_LAYERS:
        return SAFETENSORS_LAYERS[name]
    layer, _, parameter = name.partition(".")
    return f"{SAFETENSORS_LAYERS[layer]}.{parameter}"


def _version(package: str) -> str:
    import importlib.metadata

    return importlib.metadata.version(package)
