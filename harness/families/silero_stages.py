"""The stages of `ports.silero_vad` one by one, in the layouts of its taps, for `parity trace`.

Its functions are looked up when they are called, so that a planted one is found.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.family import Stage

Array = NDArray[np.float32]
Taps = Mapping[str, NDArray[Any]]


def _stage(tap: str, *inputs: str) -> Stage:
    return Stage(tap, inputs, f"harness.families.silero_stages:{tap}")


NUMPY_STAGES = (
    _stage("input"),
    _stage("spectrum", "input"),
    _stage("conv1", "spectrum"),
    _stage("conv2", "conv1"),
    _stage("conv3", "conv2"),
    _stage("conv4", "conv3"),
    _stage("lstm_h", "conv4"),
    _stage("lstm_c", "conv4"),
    _stage("logit", "lstm_h"),
    _stage("probability", "logit"),
)


def input(port: Any, taps: Taps, samples: Array, rate_hz: int) -> Array:
    """[N] to [T, 576]."""
    from ports import silero_vad

    context, _ = silero_vad.fresh_state(rate_hz)
    return silero_vad.with_context(silero_vad.chunked(samples, silero_vad.CHUNK[rate_hz]), context)


def spectrum(port: Any, taps: Taps, samples: Array, rate_hz: int) -> Array:
    """[T, 576] to [T, 129, 4]."""
    from ports import silero_vad

    padded = silero_vad.pad(taps["input"], silero_vad.RIGHT_PADDING[rate_hz])
    return silero_vad.magnitude(silero_vad.stft(padded, port._weights[rate_hz]["basis"])).transpose(0, 2, 1)


def _convolution(layer: str, before: str, port: Any, taps: Taps, samples: Array, rate_hz: int) -> Array:
    """[T, I, L] to [T, O, L'], or to [T, O] for the last layer."""
    from ports import silero_vad

    weights, inputs = port._weights[rate_hz], taps[before].transpose(0, 2, 1)
    summed = silero_vad.convolve(
        inputs, weights[f"{layer}.weight"], weights[f"{layer}.bias"], silero_vad.STRIDES[layer]
    )
    encoded = silero_vad.relu(summed)
    return encoded[:, 0] if layer == "conv4" else encoded.transpose(0, 2, 1)


conv1 = functools.partial(_convolution, "conv1", "spectrum")
conv2 = functools.partial(_convolution, "conv2", "conv1")
conv3 = functools.partial(_convolution, "conv3", "conv2")
conv4 = functools.partial(_convolution, "conv4", "conv3")


def lstm_h(port: Any, taps: Taps, samples: Array, rate_hz: int) -> Array:
    """[T, 128] to [T, 128]."""
    return _cell(port, taps, rate_hz)[0]


def lstm_c(port: Any, taps: Taps, samples: Array, rate_hz: int) -> Array:
    """[T, 128] to [T, 128]."""
    return _cell(port, taps, rate_hz)[1]


def _cell(port: Any, taps: Taps, rate_hz: int) -> tuple[Array, Array]:
    """h and c after each chunk, each from the reference's state before it, so that no drift is carried on."""
    from ports import silero_vad

    before = [np.concatenate([np.zeros_like(taps[name][:1]), taps[name][:-1]]) for name in ("lstm_h", "lstm_c")]
    steps = [
        silero_vad.lstm(chunk[None], (h, c), port._weights[rate_hz])
        for chunk, h, c in zip(taps["conv4"], *before, strict=True)
    ]
    hidden, cell = (np.concatenate(side) for side in zip(*steps, strict=True))
    return hidden, cell


def logit(port: Any, taps: Taps, samples: Array, rate_hz: int) -> Array:
    """[T, 128] to [T]."""
    from ports import silero_vad

    return silero_vad.logit(taps["lstm_h"], port._weights[rate_hz])


def probability(port: Any, taps: Taps, samples: Array, rate_hz: int) -> Array:
    """[T] to [T]."""
    from ports import silero_vad

    return silero_vad.sigmoid(taps["logit"])
