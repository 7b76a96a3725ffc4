"""A clip of the task `resampler`: the error over time, the spectrograms, and what each side sounds like.

Conventions: of the target rates the one with the largest error is drawn; one whose outputs differ in shape or length
comes before all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.clips import Clip
from reports.audio import Assets, difference_player, player
from reports.details.panels import Difference, Panel, Sides, Tile, difference
from reports.figures import error_over_time
from reports.spectrograms import spectrograms
from reports.stored import Row, number

LEAD = "max_abs"
PREFIX = "resampled_"


def draw(assets: Assets, clip: Clip, sides: Sides, rows: Sequence[Row]) -> list[Panel]:
    """The panels of one clip."""
    expected, obtained = sides.reference.tensors, sides.port.tensors
    # Sorted, because safetensors gives names in any order and equal errors must give the same page.
    places = sorted(name for name in expected if name.startswith(PREFIX) and name in obtained)
    if not places:
        return [Panel("Nothing to draw", note="The two sides have no output in common.")]
    differences = {name: difference(expected[name], obtained[name]) for name in places}
    place = max(places, key=lambda name: _badness(differences[name]))
    error = differences[place]
    rate_hz = int(place.removeprefix(PREFIX))
    if error is None:
        shapes = f"{list(obtained[place].shape)} and {list(expected[place].shape)}"
        return [Panel(f"{place}: shapes {shapes} cannot be subtracted")]
    if not error.values.size:
        return [Panel(f"{place}: no samples", note=error.note or "Both outputs are empty, as they must be.")]
    return [_error(error, rate_hz, place), _spectra(assets, error, expected[place], obtained[place], rate_hz)]


def _badness(error: Difference | None) -> tuple[bool, float]:
    """Unequal lengths come before any error."""
    return error is None or bool(error.note), _size(error)


def _size(error: Difference | None) -> float:
    if error is None:
        return math.inf
    return float(np.abs(np.nan_to_num(error.values, posinf=math.inf)).max(initial=0.0))


def _error(error: Difference, rate_hz: int, place: str) -> Panel:
    peak = _size(error)
    largest = f"largest {number(peak)} at {error.worst / rate_hz:.3f} s" if peak else "every sample is equal"
    channels = f", envelope over {len(error.values)} channels" if error.values.ndim == 2 else ""
    note = f"at {rate_hz} Hz; {largest}{channels}"
    return Panel(
        f"Error over time, {place}",
        "; ".join(text for text in (note, error.note) if text),
        error_over_time(error.values, rate_hz),
    )


def _spectra(assets: Assets, error: Difference, reference: NDArray[Any], port: NDArray[Any], rate_hz: int) -> Panel:
    players = (
        player(assets, "reference", reference, rate_hz, error.worst),
        player(assets, "port", port, rate_hz, error.worst),
        difference_player(assets, "port − reference", error.values, rate_hz, error.worst),
    )
    pictures = spectrograms(assets, reference, port, rate_hz)
    tiles = tuple(Tile(picture, sound) for picture, sound in zip(pictures, players, strict=True))
    note = f"mean of {len(reference)} channels" if reference.ndim == 2 else ""
    return Panel("Spectrograms and sound", note, tiles=tiles)
