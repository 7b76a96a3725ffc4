"""References of the family `mimi`: transformers' MimiModel, and Kyutai's own package in an overlay.

Conventions: one channel [N] at 24 kHz; codes [K, T] int64 with T = ceil(N / 1920); the input is padded with silence to
whole frames, as the native package does, because transformers otherwise pads inside each convolution. The variant
`8-codebooks-context-bug` uses the first 8 codebooks and lets attention see 251 steps, as candle does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from references.mimi_layout import HF_FOLDER, NATIVE_FILE

FRAME_SAMPLES = 1920
CANDIDATES = 8
CODEBOOKS = 32
CHANNELS_LAST = ("encoder_transformer", "decoder_transformer")
# Variant: codebooks, and steps that attention sees.
VARIANTS = {"": (32, 250), "8-codebooks-context-bug": (8, 251)}
LAYERS = (0, 1, 3, 4, 6, 7, 9, 10, 12, 14), (0, 2, 3, 5, 6, 8, 9, 11, 12, 14)


class _Model:
    """What both packages share: padding, batches, the nearest entries, and taps by hooks on the submodules."""

    _tapped: dict[str, Any]

    @property
    def _codebooks(self) -> list[tuple[Any, list[Any]]]:
        """Of each chain the projection and the entries [2048, 256]."""
        raise NotImplementedError

    def encode(self, samples: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
        """[N] to codes [K, T], latents [512, T], the nearest entries and their distances [K, T, 8]."""
        import torch

        with torch.inference_mode():
            codes, latents = self._encode(self._tensor(samples)[None])
            near, distances = self._nearest(latents, codes)
        named = {"codes": codes[0], "latents": latents[0].float(), "candidates": near, "distances": distances}
        return {name: tensor.numpy() for name, tensor in named.items()}

    def encode_batch(self, samples: NDArray[np.float32]) -> NDArray[np.int64]:
        """[B, N] to codes [B, K, T]."""
        import torch

        with torch.inference_mode():
            return np.asarray(self._encode(self._tensor(samples))[0].numpy())

    def decode(self, codes: NDArray[np.int64]) -> NDArray[np.float32]:
        """[K, T] to [1920 T]."""
        import torch

        with torch.inference_mode():
            return np.asarray(self._decode(torch.from_numpy(codes)[None])[0, 0].float().numpy())

    def taps(self, samples: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        """The output of every submodule [channels, time] in encoding and in decoding the own codes."""
        seen: dict[str, NDArray[np.float32]] = {}

        def note(name: str) -> Any:
            def hook(module: Any, inputs: Any, output: Any) -> None:
                value = output[0] if isinstance(output, tuple | list) else output
                value = value.transpose(1, 2) if name.startswith(CHANNELS_LAST) else value
                seen[name] = value[0].float().numpy().copy()

            return hook

        handles = [module.register_forward_hook(note(name)) for name, module in self._tapped.items()]
        try:
            self.decode(self.encode(samples)["codes"])
        finally:
            for handle in handles:
                handle.remove()
        return seen

    def _encode(self, samples: Any) -> tuple[Any, Any]:
        """[B, N] to codes [B, K, T] and latents [B, 512, T]."""
        raise NotImplementedError

    def _decode(self, codes: Any) -> Any:
        """[B, K, T] to [B, 1, 1920 T]."""
        raise NotImplementedError

    def _tensor(self, samples: NDArray[np.float32]) -> Any:
        import torch

        missing = -samples.shape[-1] % FRAME_SAMPLES
        padded = np.pad(samples, ((0, 0),) * (samples.ndim - 1) + ((0, missing),))
        return torch.from_numpy(np.ascontiguousarray(padded)).to(self._dtype)

    def _nearest(self, latents: Any, codes: Any) -> tuple[Any, Any]:
        """The 8 nearest entries where the model quantised, the chosen one in front. [K, T, 8] each."""
        import torch

        near, distances = [], []
        for project, entries in self._codebooks:
            residual = project(latents)[0].T  # [T, 256]
            for own in entries:
                chosen = codes[0, len(near)][:, None]  # [T, 1]
                distance = torch.cdist(residual[None], own[None])[0]  # [T, 2048]
                # What the model chose stands in front also of an equal.
                ranked = distance.scatter(1, chosen, -1.0).topk(CANDIDATES, largest=False).indices
                near.append(ranked.to(torch.int16))
                distances.append(distance.gather(1, ranked).float())
                residual = residual - own[chosen[:, 0]]
        return torch.stack(near), torch.stack(distances)


class HuggingFace(_Model):
    """`transformers.MimiModel` with the checkpoint's `hf/` folder. Source: transformers 5.25."""

    def __init__(self, variant: str = "", *, checkpoint: Path) -> None:
        import torch
        import transformers

        self.version = f"transformers {transformers.__version__}, torch {torch.__version__}"
        self._dtype = torch.float32
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        self._count, context = VARIANTS[variant]
        load = transformers.MimiModel.from_pretrained
        self._model = model = load(checkpoint / HF_FOLDER, dtype="float32", sliding_window=context).eval()
        encoder, decoder = model.encoder, model.decoder
        self._tapped = {f"encoder.{index}": encoder.encoder_seanet.layers[index] for index in LAYERS[0]}
        self._tapped |= _numbered("encoder_transformer", encoder.encoder_transformer.layers)
        self._tapped |= {"downsample": encoder.downsample, "upsample": decoder.upsample}
        self._tapped |= _numbered("decoder_transformer", decoder.decoder_transformer.layers)
        self._tapped |= {f"decoder.{index}": decoder.decoder_seanet.layers[index] for index in LAYERS[1]}

    @property
    def _codebooks(self) -> list[tuple[Any, list[Any]]]:
        quantizer = self._model.quantizer
        chains = quantizer.semantic_residual_vector_quantizer, quantizer.acoustic_residual_vector_quantizer
        return [
            (chain.input_proj, [layer.codebook.embed for layer in chain.layers[:count]])
            for chain, count in zip(chains, (1, self._count - 1), strict=True)
        ]

    def encode_stream(self, samples: NDArray[np.float32], frames: Sequence[int]) -> NDArray[np.int64]:
        """[1920 T] in chunks of so many frames to codes [K, T]."""
        import torch

        parts, caches = [], {}
        with torch.inference_mode():
            for chunk in torch.split(torch.from_numpy(samples), [FRAME_SAMPLES * count for count in frames]):
                made = self._model.encode(
                    chunk[None, None], num_quantizers=self._count, use_streaming=True, return_dict=True, **caches
                )
                caches = {"encoder_cache": made.encoder_cache, "padding_cache": made.padding_cache}
                parts.append(made.audio_codes[0])
        return np.asarray(torch.cat(parts, 1).numpy())

    def _encode(self, samples: Any) -> tuple[Any, Any]:
        kept: list[Any] = []
        handle = self._model.encoder.downsample.register_forward_hook(
            lambda module, inputs, output: kept.append(output)
        )
        try:
            codes = self._model.encode(samples[:, None], num_quantizers=self._count).audio_codes
        finally:
            handle.remove()
        return codes, kept[0]

    def _decode(self, codes: Any) -> Any:
        return self._model.decode(codes).audio_values


class Moshi(_Model):
    """`moshi.models.loaders.get_mimi` with the checkpoint's native file. Source: moshi 0.2.13."""

    def __init__(self, *, checkpoint: Path) -> None:
        import moshi
        import torch
        from moshi.models import loaders

        self.version = f"moshi {moshi.__version__}, torch {torch.__version__}"
        self._dtype = torch.float32
        self._model = model = loaders.get_mimi(checkpoint / NATIVE_FILE, device="cpu", num_codebooks=CODEBOOKS)
        self._tapped = {f"encoder.{index}": model.encoder.model[index] for index in LAYERS[0]}
        self._tapped |= _numbered("encoder_transformer", model.encoder_transformer.transformer.layers)
        self._tapped |= {"downsample": model.downsample, "upsample": model.upsample}
        self._tapped |= _numbered("decoder_transformer", model.decoder_transformer.transformer.layers)
        self._tapped |= {f"decoder.{index}": model.decoder.model[index] for index in LAYERS[1]}

    @property
    def _codebooks(self) -> list[tuple[Any, list[Any]]]:
        quantizer = self._model.quantizer
        return [
            (chain.input_proj, [layer._codebook.embedding for layer in chain.vq.layers[:own]])
            for chain, own in ((quantizer.rvq_first, 1), (quantizer.rvq_rest, CODEBOOKS - 1))
        ]

    def encode_stream(self, samples: NDArray[np.float32], frames: Sequence[int]) -> NDArray[np.int64]:
        """[1920 T] in chunks of so many frames to codes [K, T]."""
        import torch

        chunks = torch.split(torch.from_numpy(samples), [FRAME_SAMPLES * count for count in frames])
        with torch.inference_mode(), self._model.streaming(1):
            return np.asarray(torch.cat([self._model.encode(chunk[None, None])[0] for chunk in chunks], 1).numpy())

    def decode_stream(self, codes: NDArray[np.int64], frames: Sequence[int]) -> NDArray[np.float32]:
        """[K, T] in chunks of so many frames to [1920 T]."""
        import torch

        chunks = torch.split(torch.from_numpy(codes), list(frames), dim=1)
        with torch.inference_mode(), self._model.streaming(1):
            return np.asarray(torch.cat([self._model.decode(chunk[None])[0, 0] for chunk in chunks]).numpy())

    def _encode(self, samples: Any) -> tuple[Any, Any]:
        kept: list[Any] = []
        handle = self._model.downsample.register_forward_hook(lambda module, inputs, output: kept.append(output))
        try:
            codes = self._model.encode(samples[:, None])
        finally:
            handle.remove()
        return codes, kept[0]

    def _decode(self, codes: Any) -> Any:
        return self._model.decode(codes)


def _numbered(name: str, layers: Sequence[Any]) -> dict[str, Any]:
    return {f"{name}.{index}": layer for index, layer in enumerate(layers)}
