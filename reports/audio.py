"""Sound for the page: 16-bit FLAC beside it, named by content, so that equal sounds are one file.

Conventions: waveforms are [N] or [C, N] in −1..1, rates in Hz. What is played is clipped to that range.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHORTEST_S = 0.05
LONGEST_S = 20.0
DIFFERENCE_PEAK = 0.5
MOST_CHANNELS = 8  # of FLAC


@dataclass
class Assets:
    """The files beside the page. written: names, by which a second request for the same content costs nothing."""

    folder: Path
    written: set[str] = field(default_factory=set)

    def place(self, content: bytes, suffix: str) -> tuple[str, Path | None]:
        """The link to a file with this content, and the path to write it to, None when it is there already."""
        name = hashlib.sha256(content).hexdigest()[:20] + suffix
        link = f"{self.folder.name}/{name}"
        if name in self.written:
            return link, None
        self.written.add(name)
        self.folder.mkdir(parents=True, exist_ok=True)
        return link, self.folder / name


@dataclass(frozen=True)
class Player:
    """A sound to play, or, with an empty link, why there is none."""

    title: str
    link: str = ""
    note: str = ""


def player(assets: Assets, title: str, samples: NDArray[Any], rate_hz: int, around: int = 0, note: str = "") -> Player:
    """Write a waveform; of a long one the part around a sample, which the note then states."""
    channels = np.nan_to_num(np.atleast_2d(np.asarray(samples, dtype=np.float64)), posinf=1.0, neginf=-1.0)
    if channels.shape[-1] < SHORTEST_S * rate_hz:
        return Player(title, note=f"{channels.shape[-1]} samples, too short to play")
    if channels.ndim != 2 or len(channels) > MOST_CHANNELS:
        return Player(title, note=f"shape {list(channels.shape)} cannot be played")
    part, extent = _part(channels, rate_hz, around)
    pcm = np.rint(part.clip(-1.0, 1.0) * 32767.0).astype("<i2").T.copy()
    link, path = assets.place(f"{rate_hz}:{pcm.shape}:".encode() + pcm.tobytes(), ".flac")
    if path:
        import soundfile

        soundfile.write(path, pcm, rate_hz, subtype="PCM_16", format="FLAC")
    return Player(title, link, "; ".join(text for text in (note, extent) if text))


def difference_player(assets: Assets, title: str, difference: NDArray[Any], rate_hz: int, around: int) -> Player:
    """Write a difference, amplified by a power of ten so that it can be heard; the gain is in the note."""
    peak = float(np.abs(np.nan_to_num(difference)).max(initial=0.0))
    if peak == 0.0:
        return Player(title, note="exactly zero: nothing to hear")
    exponent = max(0, math.floor(math.log10(DIFFERENCE_PEAK / peak)) if peak < DIFFERENCE_PEAK else 0)
    note = f"amplified 10^{exponent} times (+{20 * exponent} dB)" if exponent else "not amplified"
    return player(assets, title, difference * 10.0**exponent, rate_hz, around, note)


def _part(channels: NDArray[Any], rate_hz: int, around: int) -> tuple[NDArray[Any], str]:
    length, longest = channels.shape[-1], int(LONGEST_S * rate_hz)
    if length <= longest:
        return channels, ""
    start = min(max(around - longest // 2, 0), length - longest)
    return channels[:, start : start + longest], f"from {start / rate_hz:.1f} s to {(start + longest) / rate_hz:.1f} s"
