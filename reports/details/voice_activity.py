"""A clip of the task `voice-activity`: probabilities over the waveform, segments, the error of each chunk, and taps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.clips import Clip
from reports.audio import Assets, player
from reports.details.panels import Panel, Sides, Tile, difference, tap_panels
from reports.figures import Curve, error_steps, speech_curves
from reports.stored import Row, number

LEAD = "probability_max_abs"
PLACE = "probability"


def draw(assets: Assets, clip: Clip, sides: Sides, rows: Sequence[Row]) -> list[Panel]:
    """The panels of one clip."""
    missing = [side.implementation for side in (sides.reference, sides.port) if PLACE not in side.tensors]
    if missing:
        return [Panel("Nothing to draw", note=f"no tensor {PLACE} from {', '.join(missing)}")]
    expected, obtained = sides.reference.tensors[PLACE], sides.port.tensors[PLACE]
    return [_curves(assets, clip, expected, obtained), *_error(expected, obtained), *tap_panels(sides, rows)]


def _curves(assets: Assets, clip: Clip, reference: NDArray[Any], port: NDArray[Any]) -> Panel:
    from harness.metrics import voice_activity
    from harness.tasks.voice_activity import CHUNK_MS, THRESHOLD

    sides = (("reference", reference.ravel(), "side-reference"), ("port", port.ravel(), "side-port"))
    curves = [Curve(name, values, len(values) * CHUNK_MS / 1000, style) for name, values, style in sides]
    # The last chunk is padded, so that the chunks may last longer than the clip.
    duration_s = max(clip.duration_s, *(curve.duration_s for curve in curves))
    samples = np.pad(clip.mono(), (0, max(0, round(duration_s * clip.rate_hz) - clip.samples.shape[-1])))
    segments = [
        [(start / 1000, end / 1000) for start, end in voice_activity.segments(curve.values, chunk_ms=CHUNK_MS)]
        for curve in curves
    ]
    figure = speech_curves(samples, duration_s, curves, THRESHOLD, segments)
    return Panel(
        "Probability of speech over the waveform",
        f"threshold {THRESHOLD:g}; segments below, {len(segments[0])} of the reference, {len(segments[1])} of the port",
        figure,
        tiles=(Tile(player=player(assets, "clip", clip.samples, clip.rate_hz)),),
        legend=(("reference", "side-reference"), ("port", "side-port"), ("waveform", "waveform")),
    )


def _error(reference: NDArray[Any], port: NDArray[Any]) -> list[Panel]:
    from harness.tasks.voice_activity import CHUNK_MS

    error = difference(reference, port)
    if error is None or error.values.ndim != 1:
        shapes = f"{list(reference.shape)} and {list(port.shape)}"
        return [Panel(f"Probabilities of shapes {shapes} cannot be subtracted")]
    peak = number(float(np.abs(error.values).max(initial=0.0)))
    note = f"largest {peak} in chunk {error.worst}"
    return [
        Panel(
            "|Error| of each chunk",
            "; ".join(text for text in (note, error.note) if text),
            error_steps(error.values, len(error.values) * CHUNK_MS / 1000),
        )
    ]
