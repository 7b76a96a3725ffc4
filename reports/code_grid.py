"""A codec's codes as SVG: which differ, codebook over time, and how far from a tie the ones that differ first are.

Conventions: codes are integers [K, T], codebook 0 (the semantic one) at the top and apart. What matches is drawn once
for each codebook, what differs once for each run of equal cells of a frame, so that a page stays small. Colours and
texts are as in `reports.figures`; the kinds differ in lightness too, matches the faintest and roots the strongest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from harness.metrics.codes import CASCADE, MATCH, ROOT, TIE, CodeComparison
from reports.figures import LEFT, RIGHT, WIDTH
from reports.stored import number

NAMES = {MATCH: "match", TIE: "tie", ROOT: "root", CASCADE: "cascade"}
PLURALS = {MATCH: "matches", TIE: "ties", ROOT: "roots", CASCADE: "cascades"}
STYLES = {kind: f"code-{name}" for kind, name in NAMES.items()}
SPAN = WIDTH - LEFT - RIGHT
FIRST_ACOUSTIC = 1  # the codebooks before it are a chain of their own
TOP, AXIS, GAP = 14, 22, 6
NARROWEST = 1.0
# Ten seconds of 32 codebooks: beyond it a run of cascades tells its first entries only.
MOST_LISTED, FIRST_LISTED = 4000, 3
MARGIN_HEIGHT = 170
DECADES = (-6, 9)  # a margin beyond them is drawn at the edge
MOST_DECADE_LABELS = 6


@dataclass(frozen=True)
class Codes:
    """Entries of both sides [K, T] and how they compare. tie_margin: the largest relative margin of a tie."""

    reference: NDArray[Any]
    port: NDArray[Any]
    found: CodeComparison
    tie_margin: float
    frame_s: float

    @property
    def duration_s(self) -> float:
        """Of all frames."""
        return float(self.reference.shape[1] * self.frame_s)

    @property
    def first_mismatch(self) -> tuple[int, int] | None:
        """Frame and codebook of the first code that is no match, None when all match."""
        places = np.argwhere(self.found.grid.T != MATCH)
        return (int(places[0, 0]), int(places[0, 1])) if len(places) else None

    def place(self, frame: int, codebook: int) -> str:
        """A cell in words."""
        return f"frame {frame} ({frame * self.frame_s:.2f} s), codebook {codebook}"

    def entries(self, frame: int, codebook: int) -> str:
        """What both sides chose in a cell."""
        return f"reference's entry {self.reference[codebook, frame]}, port's entry {self.port[codebook, frame]}"

    def margin(self, frame: int, codebook: int) -> str:
        """A cell's margin in tie limits, in words."""
        value = float(self.found.margins[codebook, frame])
        if math.isnan(value):
            return "margin unknown"
        least = "at least " if self.found.bounded[codebook, frame] else ""
        return f"margin {least}{number(value / self.tie_margin)} × tie limit"

    def describe(self, frame: int, codebook: int) -> str:
        """All that is known of a cell that is a tie or a root."""
        return f"{self.place(frame, codebook)}: {self.entries(frame, codebook)}, {self.margin(frame, codebook)}"

    def summary(self, frame: int, codebook: int) -> str:
        """The same in fewer words, for a note."""
        entries = f"entry {self.port[codebook, frame]}, reference {self.reference[codebook, frame]}"
        return f"{self.place(frame, codebook)}, {entries}, {self.margin(frame, codebook)}"


def counted(count: int, kind: int) -> str:
    """A number of codes of a kind, in words."""
    return f"{count} {NAMES[kind] if count == 1 else PLURALS[kind]}"


def code_grid(codes: Codes) -> Markup:
    """Every code as a cell, coloured by its kind; a triangle stands above the first frame that differs."""
    codebooks, frames = codes.reference.shape
    rows = _Rows(codebooks)
    left, width = LEFT, SPAN / max(frames, 1)
    parts = [_row(codes, rows, codebook) for codebook in range(codebooks)]
    cell = Markup('<rect x="{0}" y="{1}" width="{2}" height="{3}"><title>{4}</title></rect>')
    for kind in (CASCADE, TIE, ROOT):
        boxes = [
            cell.format(
                _f(left + frame * width),
                _f(rows.y(start)),
                _f(max(width, NARROWEST)),
                _f(rows.y(stop - 1) + rows.height - rows.y(start)),
                title,
            )
            for frame, start, stop, title in _runs(codes, kind)
        ]
        parts.append(Markup('<g class="{0}">{1}</g>').format(STYLES[kind], Markup().join(boxes)))
    if first := codes.first_mismatch:
        triangle = Markup('<path class="code-first" d="M{0} 2h10l-5 8z"><title>first divergence: {1}</title></path>')
        parts.append(triangle.format(_f(left + (first[0] + 0.5) * width - 5), codes.place(*first)))
    height = rows.bottom + AXIS
    parts.append(_time_axis(height, codes.duration_s))
    found = ", ".join(counted(codes.found.count(kind), kind) for kind in NAMES)
    return _svg(height, f"{codebooks} codebooks over {frames} frames, {codes.duration_s:.2f} s: {found}", parts)


def margin_plot(codes: Codes) -> Markup | None:
    """The margin of each tie (dot) and root (cross, triangle where only bounded) over time; None without any."""
    own = [(int(t), int(k)) for t, k in np.argwhere(~np.isnan(codes.found.margins.T))]
    if not own:
        return None
    ratios = {(t, k): float(codes.found.margins[k, t]) / codes.tie_margin for t, k in own}
    logs = [math.log10(value) for value in ratios.values() if 0 < value < math.inf]
    low = max(math.floor(min([-1.0, *logs])), DECADES[0])
    high = min(math.ceil(max([1.0, *logs])), DECADES[1])
    bottom = MARGIN_HEIGHT - AXIS - 4

    def y_of(log: float) -> float:
        return bottom - (min(max(log, low), high) - low) / (high - low) * (bottom - TOP)

    step = -(-(high - low) // MOST_DECADE_LABELS)
    lines = [
        _line(y_of(decade), "grid", f"1e{decade}") for decade in range(low, high + 1) if decade % step == 0 and decade
    ]
    parts = [*lines, _line(y_of(0), "threshold", "1 (limit)")]
    for (frame, codebook), ratio in ratios.items():
        log = math.log10(ratio) if 0 < ratio < math.inf else math.copysign(math.inf, ratio - 1)
        kind = int(codes.found.grid[codebook, frame])
        x = LEFT + (frame + 0.5) * SPAN / codes.reference.shape[1]
        title = f"{NAMES[kind]} in {codes.describe(frame, codebook)}"
        parts.append(_mark(kind, bool(codes.found.bounded[codebook, frame]), x, y_of(log), title))
    parts.append(_time_axis(MARGIN_HEIGHT, codes.duration_s))
    largest = number(max(ratios.values()))
    return _svg(MARGIN_HEIGHT, f"Margins of {len(own)} codes in tie limits, at most {largest}", parts)


class _Rows:
    """Where the rows of codebooks stand."""

    def __init__(self, codebooks: int) -> None:
        self.codebooks = codebooks
        self.pitch = 14 if codebooks <= 8 else 11 if codebooks <= 16 else 9
        self.height = self.pitch - 1

    def y(self, codebook: int) -> float:
        return TOP + codebook * self.pitch + (GAP if codebook >= FIRST_ACOUSTIC else 0)

    @property
    def bottom(self) -> float:
        return self.y(self.codebooks - 1) + self.height

    def label(self, codebook: int) -> str:
        if codebook == 0:
            return "0 semantic"
        every = 4 if self.pitch < 11 else 1
        return str(codebook) if codebook == 1 or codebook % every == 0 or codebook == self.codebooks - 1 else ""


def _row(codes: Codes, rows: _Rows, codebook: int) -> Markup:
    kinds = {kind: int((codes.found.grid[codebook] == kind).sum()) for kind in NAMES}
    counts = ", ".join(counted(count, kind) for kind, count in kinds.items())
    chain = "semantic" if codebook == 0 else "acoustic"
    markup = Markup(
        '<g><title>{0}</title><rect class="code-label" x="0" y="{1}" width="{2}" height="{3}"/>'
        '<rect class="{4}" x="{2}" y="{1}" width="{5}" height="{3}"/>'
        '<text class="tick tick-y" x="{6}" y="{7}">{8}</text></g>'
    )
    y = rows.y(codebook)
    title, label = f"codebook {codebook}, {chain}: {counts}", rows.label(codebook)
    return markup.format(
        title, _f(y), LEFT, rows.height, STYLES[MATCH], SPAN, LEFT - 6, _f(y + rows.height / 2 + 4), label
    )


def _runs(codes: Codes, kind: int) -> Iterator[tuple[int, int, int, str]]:
    """Frame, first codebook, codebook after the last, and text of every run of one kind in a frame and a chain."""
    grid = codes.found.grid
    brief = int((grid != MATCH).sum()) > MOST_LISTED
    for frame in np.flatnonzero((grid == kind).any(axis=0)):
        column = grid[:, frame] == kind
        for first, end in ((0, FIRST_ACOUSTIC), (FIRST_ACOUSTIC, len(grid))):
            edges = np.flatnonzero(np.diff(column[first:end].astype(np.int8), prepend=0, append=0)) + first
            for start, stop in zip(edges[::2], edges[1::2], strict=True):
                if kind == CASCADE:
                    yield int(frame), int(start), int(stop), _cascades(codes, int(frame), int(start), int(stop), brief)
                    continue
                for codebook in range(int(start), int(stop)):
                    text = f"{NAMES[kind]} in {codes.describe(int(frame), codebook)}"
                    yield int(frame), codebook, codebook + 1, text


def _cascades(codes: Codes, frame: int, start: int, stop: int, brief: bool) -> str:
    if stop - start == 1:
        return f"cascade in {codes.place(frame, start)}: {codes.entries(frame, start)}, no margin of its own"
    shown = range(start, min(stop, start + FIRST_LISTED) if brief else stop)
    entries = ", ".join(f"{k}: {codes.reference[k, frame]} → {codes.port[k, frame]}" for k in shown)
    rest = f" and {stop - shown.stop} more" if shown.stop < stop else ""
    where = f"frame {frame} ({frame * codes.frame_s:.2f} s), codebooks {start} to {stop - 1}"
    return f"cascade in {where}, no margins of their own; reference's → port's entries {entries}{rest}"


def _mark(kind: int, bounded: bool, x: float, y: float, title: str) -> Markup:
    if kind == TIE:
        shape = Markup('<circle class="{0}" cx="{1}" cy="{2}" r="4"><title>{3}</title></circle>')
        return shape.format(STYLES[TIE], _f(x), _f(y), title)
    shape = Markup('<path class="{0}" d="M{1} {2}{3}"><title>{4}</title></path>')
    if bounded:
        return shape.format(STYLES[ROOT], _f(x - 5), _f(y + 4), "h10l-5 -9z", title)
    return shape.format("code-cross", _f(x - 4), _f(y - 4), "l8 8m0 -8l-8 8", title)


def _line(y: float, style: str, text: str) -> Markup:
    line = Markup('<line class="{0}" x1="{1}" x2="{2}" y1="{3}" y2="{3}"/>')
    tick = Markup('<text class="tick tick-y" x="{0}" y="{1}">{2}</text>')
    return line.format(style, LEFT, WIDTH - RIGHT, _f(y)) + tick.format(LEFT - 6, _f(y + 4), text)


def _time_axis(height: float, duration_s: float) -> Markup:
    tick = Markup('<text class="tick" text-anchor="{0}" x="{1}" y="{2}">{3}</text>')
    shares = ((0.0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1.0, "end"))
    return Markup().join(
        tick.format(anchor, _f(LEFT + share * SPAN), _f(height - 4), f"{duration_s * share:.2f} s")
        for share, anchor in shares
    )


def _svg(height: float, label: str, parts: Sequence[Markup]) -> Markup:
    return Markup('<svg class="plot" viewBox="0 0 {0} {1}" role="img" aria-label="{2}">{3}</svg>').format(
        WIDTH, _f(height), label, Markup().join(parts)
    )


def _f(value: float) -> str:
    return f"{value:.1f}"
