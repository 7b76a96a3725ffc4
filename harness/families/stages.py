"""What ports offer to a trace: their stages one by one, and how their taps are matched with the reference's.

A port that is not named here is traced too: its taps are then matched by name and taken to follow each other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Taps = Mapping[str, NDArray[Any]]
HERE = "harness.families.stages"

# The port, and the observation folder whose taps `isolated` feeds to its stages; planted in the worker.
FED: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stage:
    """One tap and what it is computed from.

    tap: its name at the reference. inputs: the taps before it, by their names at the reference; none for a tap that is
    made of the clip alone. function: `module:attribute`, called in the worker as function(port, taps, samples, rate_hz)
    with all taps of the reference; gives the port's own value of this tap. Empty when the port cannot run it alone.
    port_tap: its name at the port, when it is another. axes: the order in which the port's axes give the reference's.
    """

    tap: str
    inputs: tuple[str, ...] = ()
    function: str = ""
    port_tap: str = ""
    axes: tuple[int, ...] = ()


def _silero(tap: str, *inputs: str) -> Stage:
    return Stage(tap, inputs, f"{HERE}:silero_{tap}")


_SILERO = (
    _silero("input"),
    _silero("spectrum", "input"),
    _silero("conv1", "spectrum"),
    _silero("conv2", "conv1"),
    _silero("conv3", "conv2"),
    _silero("conv4", "conv3"),
    _silero("lstm_h", "conv4"),
    _silero("lstm_c", "conv4"),
    _silero("logit", "lstm_h"),
    _silero("probability", "logit"),
)

STAGES: Mapping[str, tuple[Stage, ...]] = {"silero-vad/numpy": _SILERO, "silero-vad/numpy-safetensors": _SILERO}


def isolated(original: Callable[..., Any], port: Any, samples: Array, rate_hz: int) -> dict[str, NDArray[Any]]:
    """In place of a port's `taps`: each stage alone, with the reference's taps of this clip as its inputs."""
    from harness.family import resolve
    from harness.observations import TAP_PREFIX, read_observation

    name, folder = FED
    observation = read_observation(Path(folder))
    taps = {tap: observation.tensors[TAP_PREFIX + tap] for tap in observation.taps}
    return {
        stage.port_tap or stage.tap: resolve(stage.function)(port, taps, samples, rate_hz)
        for stage in STAGES[name]
        if stage.function and all(tap in taps for tap in stage.inputs)
    }


# The stages of `ports.silero_vad`, in the layouts of its taps. Its functions are looked up when they are called, so
# that a planted one is found.


def silero_input(port: Any, taps: Taps, samples: Array, rate_hz: int) -> Array:
    """[N] to [T, 576]."""
    from ports import silero_vad

    context, _ = silero_vad.fresh_state(rate_hz)
    return silero_vad.with_context(silero_vad.chunked(samples, silero_vad.CHUNK[rate_hz]), context)


def silero_spectrum(port: Any, taps: Taps, samples: Array, rate_hz: int) -> Array:
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


silero_conv1 = functools.partial(_convolution, "conv1", "spectrum")
silero_conv2 = functools.partial(_convolution, "conv2", "conv1")
silero_conv3 = functools.partial(_convolution, "conv3", "conv2")
silero_conv4 = functools.partial(_convolution, "conv4", "conv3")


def silero_lstm_h(port: Any, taps: Taps, samples: Array, rate_hz: int) -> Array:
    """[T, 128] to [T, 128]."""
    return _cell(port, taps, rate_hz)[0]


def silero_lstm_c(port: Any, taps: Taps, samples: Array, rate_hz: int) -> Array:
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


def silero_logit(port: Any, taps: Taps, samples: Array, rate_hz: int) -> Array:
    """[T, 128] to [T]."""
    from ports import silero_vad

    return silero_vad.logit(taps["lstm_h"], port._weights[rate_hz])


def silero_probability(port: Any, taps: Taps, samples: Array, rate_hz: int) -> Array:
    """[T] to [T]."""
    from ports import silero_vad

    return silero_vad.sigmoid(taps["logit"])
