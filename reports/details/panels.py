"""What a clip's drawing is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from harness.observations import TAP_PREFIX, Observation
from reports.audio import Player
from reports.figures import tap_bars
from reports.spectrograms import Picture
from reports.stored import Row


@dataclass(frozen=True)
class Tile:
    """A picture, a sound, or both, of one thing."""

    picture: Picture | None = None
    player: Player | None = None


@dataclass(frozen=True)
class Panel:
    """One figure of a clip. legend: label and style class of each curve."""

    title: str
    note: str = ""
    figure: Markup | None = None
    tiles: tuple[Tile, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Sides:
    """The two observations of a clip."""

    reference: Observation
    port: Observation


@dataclass(frozen=True)
class Difference:
    """Port minus reference over the part that both have. note: says when that is not the whole."""

    values: NDArray[np.float64]
    note: str

    @property
    def worst(self) -> int:
        """The index in time of the largest error, 0 when there is none."""
        if not self.values.size:
            return 0
        return int(np.abs(np.nan_to_num(np.atleast_2d(self.values))).max(axis=0).argmax())


def difference(reference: NDArray[Any], port: NDArray[Any]) -> Difference | None:
    """Port minus reference along the last axis, float64; None when the shapes differ in more than length."""
    if reference.ndim not in (1, 2) or reference.shape[:-1] != port.shape[:-1]:
        return None
    lengths = reference.shape[-1], port.shape[-1]
    common = min(lengths)
    left, right = (np.asarray(side, dtype=np.float64)[..., :common] for side in (reference, port))
    with np.errstate(invalid="ignore"):
        values = right - left
    unequal = f"length {lengths[1]}, reference {lengths[0]}: only the first {common} drawn"
    return Difference(values, unequal if lengths[0] != lengths[1] else "")


def tap_panels(sides: Sides, rows: Sequence[Row]) -> list[Panel]:
    """The error of each tap, nothing without taps."""
    own = [row for row in rows if row["metric"] == "tap_nrmse"]
    errors = [(str(row["place"]).removeprefix(TAP_PREFIX), float(row["value"])) for row in own]
    if not errors:
        return []
    missing = [tap for tap in sides.reference.taps if tap not in sides.port.taps]
    note = "normalised RMS error in execution order, logarithmic from 1e−9"
    return [Panel("Taps", note + (f"; not in the port: {', '.join(missing)}" if missing else ""), tap_bars(errors))]
