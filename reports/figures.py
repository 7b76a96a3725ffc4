"""Drawings that stand in the page itself, as SVG.

Conventions: every function returns markup with a text alternative; text from a run goes through `Markup.format`, which
escapes it. Colours come from the page's style by class, so that they follow its light and dark themes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from reports.stored import number

WIDTH = 900
LARGEST = 1e300  # what still has a difference in float64
LEFT = 74
RIGHT = 12
MOST_POINTS = 800
# A gate's scale: decades below and above its limit.
DECADES_BELOW, DECADES_ABOVE = 6.0, 3.0
SCALE_WIDTH, SCALE_HEIGHT = 220, 18
SMALLEST_TAP_ERROR = 1e-9


@dataclass(frozen=True)
class Curve:
    """One curve of a plot: values [T] over a duration, drawn in the style of its class."""

    title: str
    values: NDArray[Any]
    duration_s: float
    style: str


def gate_scale(value: float | None, limit: float, unit: str, status: str) -> Markup:
    """A value against its limit; the limit is always at the same place, with decades on both sides.

    A limit that has no logarithm (0, or a level in dBFS) stands on a linear scale instead. Only what was judged has a
    marker: a dot when it passed, a cross when it failed.
    """
    at_limit = DECADES_BELOW / (DECADES_BELOW + DECADES_ABOVE)
    note = ""
    if status not in ("pass", "fail"):
        place, note, label = None, "not judged", f"{status}: not judged; limit {number(limit)} {unit}"
    elif value is None or math.isnan(value):
        place, note, label = None, "no value", f"no finite value; limit {number(limit)} {unit}"
    elif value <= 0 <= limit:
        place, note = 0.0, "exact" if value == 0 else "below 0"
        label = f"{number(value)} {unit}, limit {number(limit)}: {'exactly 0' if value == 0 else 'below 0'}"
    elif limit > 0:
        decades = math.log10(value) - math.log10(limit)  # infinite when the value is
        place = at_limit + decades / (DECADES_BELOW + DECADES_ABOVE)
        distance = f"{abs(decades):.1f} decades {'below' if value <= limit else 'above'}"
        label = f"{number(value)} {unit}, limit {number(limit)}: {distance}"
    elif math.isinf(value):
        place, label = math.copysign(math.inf, value), f"{number(value)} {unit}, limit {number(limit)}"
    else:
        span = max(abs(value - limit), abs(limit))
        place = at_limit + (value - limit) / span * (at_limit if value <= limit else 1 - at_limit)
        label = f"{number(value)} {unit}, limit {number(limit)} (linear scale)"
    return _scale_markup(place, at_limit, label, note, status == "pass")


def _scale_markup(place: float | None, at_limit: float, label: str, note: str, passed: bool) -> Markup:
    middle, limit_x = SCALE_HEIGHT / 2, at_limit * SCALE_WIDTH
    bar = Markup('<rect class="{0}" x="{1}" y="{2}" width="{3}" height="4"/>')
    parts = [
        bar.format("scale-good", 0, middle - 2, _f(limit_x)),
        bar.format("scale-bad", _f(limit_x), middle - 2, _f(SCALE_WIDTH - limit_x)),
        Markup('<line class="scale-limit" x1="{0}" x2="{0}" y1="2" y2="{1}"/>').format(_f(limit_x), SCALE_HEIGHT - 2),
    ]
    if note:
        parts.append(Markup('<text class="scale-text" x="15" y="{0}">{1}</text>').format(middle - 3.5, note))
    if place is not None:
        x = min(max(place * SCALE_WIDTH, 6.0), SCALE_WIDTH - 6.0)
        dot = Markup('<circle class="marker-good" cx="{0}" cy="{1}" r="4.5"/>').format(_f(x), middle)
        cross = Markup('<path class="marker-bad" d="M{0} {1}l9 9m0 -9l-9 9"/>').format(_f(x - 4.5), _f(middle - 4.5))
        parts.append(dot if passed else cross)
    frame = '<svg class="scale" width="{0}" height="{1}" role="img" aria-label="{2}"><title>{2}</title>{3}</svg>'
    return Markup(frame).format(SCALE_WIDTH, SCALE_HEIGHT, label, Markup().join(parts))


def envelope(values: NDArray[Any], points: int = MOST_POINTS) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Smallest and largest value of each of at most `points` equal parts of [N] or [C, N], over all channels."""
    rows = np.nan_to_num(np.atleast_2d(np.asarray(values, dtype=np.float64)))
    low, high = rows.min(axis=0), rows.max(axis=0)
    if len(low) > points:
        edges = np.linspace(0, len(low), points, endpoint=False).astype(int)
        low, high = np.minimum.reduceat(low, edges), np.maximum.reduceat(high, edges)
    return low, high


def error_over_time(error: NDArray[Any], rate_hz: int, height: int = 130) -> Markup:
    """Port minus reference, [N] or [C, N], as an envelope."""
    low, high = envelope(error)
    peak = float(max(np.abs(low).max(initial=0.0), np.abs(high).max(initial=0.0)))
    duration_s = np.atleast_2d(error).shape[-1] / rate_hz
    label = f"Port minus reference over {duration_s:.2f} s, at most {number(peak)}"
    plot = _Plot(height, -(peak or 1.0), peak or 1.0)
    middle = "0" if peak else "0 (exactly)"
    ticks = [(0.0, middle)] + ([(peak, "+" + number(peak)), (-peak, number(-peak))] if peak else [])
    parts = [plot.grid(ticks), plot.time_axis(duration_s), plot.area(low, high, "curve-error")]
    return plot.markup(label, parts)


def speech_curves(
    samples: NDArray[Any],
    duration_s: float,
    curves: Sequence[Curve],
    threshold: float,
    segments: Sequence[Sequence[tuple[float, float]]],
    height: int = 216,
) -> Markup:
    """The waveform [N], probability curves [T] over it, the threshold, and each curve's segments in seconds below."""
    lanes = 13 * len(segments) + 6
    plot = _Plot(height, 0.0, 1.0, below=lanes)
    low, high = envelope(samples)
    peak = float(max(np.abs(low).max(initial=0.0), np.abs(high).max(initial=0.0))) or 1.0
    parts = [
        plot.area(0.5 + low / peak * 0.48, 0.5 + high / peak * 0.48, "waveform"),
        plot.grid([(0.0, "0"), (1.0, "1")]),
        plot.line_at(threshold, f"{threshold:g}", "threshold"),
    ]
    parts += [plot.polyline(curve.values, curve.style, curve.duration_s / duration_s) for curve in curves]
    for lane, (curve, pieces) in enumerate(zip(curves, segments, strict=True)):
        parts.append(plot.lane(lane, curve.title, curve.style, pieces, duration_s))
    parts.append(plot.time_axis(duration_s))
    found = ", ".join(f"{curve.title} {len(pieces)}" for curve, pieces in zip(curves, segments, strict=True))
    return plot.markup(f"Waveform of {duration_s:.2f} s with speech probabilities; segments: {found}", parts)


def error_steps(error: NDArray[Any], duration_s: float, height: int = 84) -> Markup:
    """|error| [T] of each chunk, as bars."""
    values = np.nan_to_num(np.abs(np.asarray(error, dtype=np.float64)))
    peak = float(values.max(initial=0.0))
    plot = _Plot(height, 0.0, peak or 1.0)
    ticks = [(0.0, "0"), (peak, number(peak))] if peak else [(0.0, "0 (exactly)")]
    _, high = envelope(values)
    parts = [plot.grid(ticks), plot.area(np.zeros_like(high), high, "curve-error"), plot.time_axis(duration_s)]
    return plot.markup(f"Absolute error of each chunk, at most {number(peak)}", parts)


def tap_bars(taps: Sequence[tuple[str, float]]) -> Markup:
    """The error of each tap in execution order, on a logarithmic scale from 1e-9 to 1 and beyond."""
    finite = [value for _, value in taps if math.isfinite(value)]
    low, high = math.log10(SMALLEST_TAP_ERROR), math.log10(max([1.0, *finite]))
    label_width, row, span = 210, 17, WIDTH - 210 - 90
    label_text = Markup('<text class="bar-label" x="{0}" y="{1}">{2}</text>')
    bar = Markup('<rect class="{0}" x="{1}" y="{2}" width="{3}" height="{4}"/>')
    value_text = Markup('<text class="bar-value" x="{0}" y="{1}">{2}</text>')
    parts = []
    for index, (name, value) in enumerate(taps):
        y, known = index * row, math.isfinite(value)
        share = (math.log10(max(value, SMALLEST_TAP_ERROR)) - low) / (high - low) if known else 1.0
        parts += [
            label_text.format(label_width - 8, y + 12, name),
            bar.format("bar" if known else "bar bar-bad", label_width, y + 3, _f(share * span), row - 6),
            value_text.format(_f(label_width + share * span + 6), y + 12, "0 (exact)" if value == 0 else number(value)),
        ]
    label = "Error of each tap in execution order: " + ", ".join(f"{name} {number(value)}" for name, value in taps)
    return Markup('<svg class="plot" viewBox="0 0 {0} {1}" role="img" aria-label="{2}">{3}</svg>').format(
        WIDTH, len(taps) * row + 2, label, Markup().join(parts)
    )


class _Plot:
    """A frame with a time axis; low and high are the values at its lower and upper edge."""

    def __init__(self, height: int, low: float, high: float, below: int = 0) -> None:
        self.height, self.low, self.high, self.below = height, low, high, below
        self.top, self.bottom = 8, height - 24 - below

    def y(self, value: float) -> float:
        # Python floats: a port's float32 extremes would overflow, and infinity is drawn at the edge.
        low, high = max(float(self.low), -LARGEST), min(float(self.high), LARGEST)
        share = (min(max(float(value), low), high) - low) / ((high - low) or 1.0)
        return self.bottom - share * (self.bottom - self.top)

    def x(self, share: float) -> float:
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def grid(self, ticks: Sequence[tuple[float, str]]) -> Markup:
        return Markup().join(self.line_at(at, text, "grid") for at, text in ticks)

    def line_at(self, value: float, text: str, style: str) -> Markup:
        y = self.y(value)
        line = Markup('<line class="{0}" x1="{1}" x2="{2}" y1="{3}" y2="{3}"/>')
        tick = Markup('<text class="tick tick-y" x="{0}" y="{1}">{2}</text>')
        return line.format(style, LEFT, WIDTH - RIGHT, _f(y)) + tick.format(LEFT - 6, _f(y + 4), text)

    def area(self, low: NDArray[Any], high: NDArray[Any], style: str) -> Markup:
        """Between two curves; each point is as wide as its share of the time."""
        if not len(low):
            return Markup()
        edges = [self.x(index / len(low)) for index in range(len(low) + 1)]
        upper = [f"{_f(x)},{_f(self.y(v))}" for i, v in enumerate(high) for x in edges[i : i + 2]]
        lower = [f"{_f(x)},{_f(self.y(v))}" for i, v in enumerate(low) for x in edges[i : i + 2]]
        return Markup('<polygon class="{0}" points="{1}"/>').format(style, " ".join(upper + lower[::-1]))

    def polyline(self, values: NDArray[Any], style: str, extent: float) -> Markup:
        """A curve of [T] values over a share of the width; of long ones the extremes are kept."""
        low, high = envelope(values, MOST_POINTS // 2)
        sides = (low,) if np.array_equal(low, high) else (low, high)
        points = [
            f"{_f(self.x((index + 0.5) / len(low) * extent))},{_f(self.y(float(side[index])))}"
            for index in range(len(low))
            for side in sides
        ]
        return Markup('<polyline class="curve {0}" points="{1}"/>').format(style, " ".join(points))

    def lane(
        self, lane: int, title: str, style: str, pieces: Sequence[tuple[float, float]], duration_s: float
    ) -> Markup:
        y = self.bottom + 11 + 13 * lane
        label = Markup('<text class="tick tick-y" x="{0}" y="{1}">{2}</text>').format(LEFT - 6, y + 8, title)
        piece = Markup('<rect class="segment {0}" x="{1}" y="{2}" width="{3}" height="7"><title>{4}</title></rect>')
        boxes = []
        for start, end in pieces:
            left, right = (self.x(min(max(at, 0.0), duration_s) / duration_s) for at in (start, end))
            boxes.append(piece.format(style, _f(left), y, _f(right - left), f"{title}: {start:.3f} s to {end:.3f} s"))
        return label + Markup().join(boxes)

    def time_axis(self, duration_s: float) -> Markup:
        tick = Markup('<text class="tick tick-x" text-anchor="{0}" x="{1}" y="{2}">{3}</text>')
        shares = ((0.0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1.0, "end"))
        return Markup().join(
            tick.format(anchor, _f(self.x(share)), self.height - 4, f"{duration_s * share:.2f} s")
            for share, anchor in shares
        )

    def markup(self, label: str, parts: Sequence[Markup]) -> Markup:
        return Markup('<svg class="plot" viewBox="0 0 {0} {1}" role="img" aria-label="{2}">{3}</svg>').format(
            WIDTH, self.height, label, Markup().join(parts)
        )


def _f(value: float) -> str:
    return f"{value:.1f}"
