"""Deterministic test signals.

Conventions: float32, one channel [N] unless said otherwise; frequencies in Hz, durations in seconds. Each function
returns a `Clip` of scope `signals` whose `signal` mapping states its parameters, so that a metric needs nothing else to
analyse the answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.clips import Clip


def log_sweep(rate_hz: int, duration_s: float = 1.0, from_hz: float = 20.0, amplitude: float = 0.5) -> Clip:
    """Exponential sine sweep from `from_hz` to the Nyquist frequency."""
    to_hz = rate_hz / 2
    count = round(rate_hz * duration_s)
    time_s = np.arange(count) / rate_hz
    growth = np.log(to_hz / from_hz)
    phase = 2 * np.pi * from_hz * duration_s / growth * np.expm1(time_s / duration_s * growth)
    return _signal("sweep", rate_hz, amplitude * np.sin(phase), from_hz=from_hz, to_hz=to_hz, amplitude=amplitude)


def sine(rate_hz: int, frequency_hz: float = 997.0, duration_s: float = 1.0, amplitude: float = 0.5) -> Clip:
    """Steady sine."""
    time_s = np.arange(round(rate_hz * duration_s)) / rate_hz
    samples = amplitude * np.sin(2 * np.pi * frequency_hz * time_s)
    return _signal("sine", rate_hz, samples, frequency_hz=frequency_hz, amplitude=amplitude)


def impulse(rate_hz: int, duration_s: float = 0.25, amplitude: float = 1.0) -> Clip:
    """One sample of `amplitude` in the middle, zeros elsewhere."""
    samples = np.zeros(round(rate_hz * duration_s))
    position = len(samples) // 2
    samples[position] = amplitude
    return _signal("impulse", rate_hz, samples, position_samples=position, amplitude=amplitude)


def step(rate_hz: int, duration_s: float = 0.25, amplitude: float = 0.5) -> Clip:
    """Zero, then `amplitude` from the middle on."""
    samples = np.zeros(round(rate_hz * duration_s))
    position = len(samples) // 2
    samples[position:] = amplitude
    return _signal("step", rate_hz, samples, position_samples=position, amplitude=amplitude)


def silence(rate_hz: int, duration_s: float = 1.0) -> Clip:
    """Zeros."""
    return _signal("silence", rate_hz, np.zeros(round(rate_hz * duration_s)))


def noise(rate_hz: int, samples: int, seed: int = 0, amplitude: float = 0.5) -> Clip:
    """Uniform white noise of exactly `samples` samples in ±amplitude."""
    values = np.random.default_rng(seed).random(samples, dtype=np.float32)
    return _signal("noise", rate_hz, amplitude * (2 * values - 1), seed=seed, amplitude=amplitude)


def stereo_noise(rate_hz: int, samples: int, seed: int = 0, amplitude: float = 0.5) -> Clip:
    """Two channels of independent white noise, [2, samples]."""
    channels = [noise(rate_hz, samples, 2 * seed + channel, amplitude).samples for channel in (0, 1)]
    return _signal("stereo-noise", rate_hz, np.stack(channels), seed=seed, amplitude=amplitude)


def _signal(kind: str, rate_hz: int, samples: NDArray[Any], **parameters: float) -> Clip:
    values = np.asarray(samples, dtype=np.float32)
    return Clip(
        id=f"{kind}-{rate_hz}-{values.shape[-1]}",
        samples=values,
        rate_hz=rate_hz,
        scope="signals",
        signal={"kind": kind, **parameters},
        origin="harness.signals",
    )
