"""Spectrograms as PNG files: reference, port, and the port's level over the reference's.

Conventions: waveforms are [N] or [C, N] (several channels are averaged), rates in Hz, levels in dB relative to a
full-scale sine. Time runs to the right, frequency upwards from 0 to half the rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.audio import Assets

WINDOW_SAMPLES = 512
MOST_FRAMES = 420
ROWS = 160
FLOOR_DB = -110.0
SMALLEST_RANGE_DB = 0.1


@dataclass(frozen=True)
class Picture:
    """An image beside the page. alt: what it shows, for those who do not see it."""

    title: str
    link: str
    alt: str
    note: str


def spectrograms(
    assets: Assets, reference: NDArray[Any], port: NDArray[Any], rate_hz: int
) -> tuple[Picture, Picture, Picture]:
    """Write the three pictures of a pair of waveforms."""
    levels = [levels_db(side, rate_hz) for side in (reference, port)]
    top_db = float(max(side.max(initial=FLOOR_DB) for side in levels))
    columns = min(side.shape[1] for side in levels)
    difference = levels[1][:, :columns] - levels[0][:, :columns]
    largest_db = float(np.abs(difference).max(initial=0.0))
    range_db = max(largest_db, SMALLEST_RANGE_DB)
    axes = f"0–{rate_hz / 2000:g} kHz upwards, {reference.shape[-1] / rate_hz:.2f} s"
    scale = f"{axes}; {FLOOR_DB:.0f} to {top_db:.0f} dB"
    first, second = (
        Picture(
            f"{name} spectrogram",
            _write(assets, side, "magma", FLOOR_DB, max(top_db, FLOOR_DB + 1)),
            f"Spectrogram of the {name}'s output, {axes}",
            scale,
        )
        for name, side in zip(("reference", "port"), levels, strict=True)
    )
    if largest_db == 0.0:
        note = f"no difference above {FLOOR_DB:.0f} dB"
    else:
        note = f"blue: port quieter, red: louder; ±{range_db:.3g} dB"
    third = Picture(
        "port − reference, in dB",
        _write(assets, difference, "RdBu_r", -range_db, range_db),
        f"Difference of the two spectrograms, at most {largest_db:.3g} dB",
        note,
    )
    return first, second, third


def levels_db(samples: NDArray[Any], rate_hz: int) -> NDArray[np.float64]:
    """Levels [ROWS, frames], highest frequency first, at least FLOOR_DB; the largest of each group of bins."""
    mono = np.nan_to_num(np.atleast_2d(np.asarray(samples, dtype=np.float64)).mean(axis=0), posinf=1.0, neginf=-1.0)
    hop = max(WINDOW_SAMPLES // 4, -(-len(mono) // MOST_FRAMES))
    padded = np.pad(mono, WINDOW_SAMPLES // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW_SAMPLES)[::hop]
    window = np.hanning(WINDOW_SAMPLES)
    magnitude = np.abs(np.fft.rfft(frames * window, axis=1)) * (2 / window.sum())
    edges = np.linspace(0, magnitude.shape[1], ROWS, endpoint=False).astype(int)
    pooled = np.maximum.reduceat(magnitude, edges, axis=1)
    return np.asarray(20 * np.log10(np.maximum(pooled, 10 ** (FLOOR_DB / 20))).T[::-1], dtype=np.float64)


def _write(assets: Assets, values: NDArray[np.float64], colours: str, low: float, high: float) -> str:
    from matplotlib import colormaps
    from PIL import Image

    scaled = ((values - low) / (high - low)).clip(0.0, 1.0)
    pixels = np.ascontiguousarray(colormaps[colours](scaled, bytes=True)[..., :3])
    link, path = assets.place(f"{pixels.shape}:".encode() + pixels.tobytes(), ".png")
    if path:
        Image.fromarray(pixels).save(path)
    return link
