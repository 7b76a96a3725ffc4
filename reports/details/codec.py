"""A clip of the task `codec`: where the codes part, how near to a tie, which half is to blame, and how it sounds.

Conventions: codes are integers [K, T], frames are told with their time in s. What only one side has, codebooks or
frames, is not drawn but stated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from harness.clips import Clip
from harness.metrics.codes import ROOT, TIE, classify
from harness.metrics.tensors import NotComparable
from reports.audio import Assets, Player, player
from reports.code_grid import NAMES, STYLES, Codes, code_grid, counted, margin_plot
from reports.details.panels import Panel, Sides, Tile, tap_panels
from reports.stored import Row, number

LEAD = "code_mismatch_rate"
PLACE = "codes"
# The limit of the gate `decode` in golden/gates/mimi.toml: a half within it is not to blame.
BLAMED_NRMSE = 1.3e-5
REFERENCE_PORT, PORT_REFERENCE, PORT_PORT = (
    "reference codes, port decoder",
    "port codes, reference decoder",
    "port codes, port decoder",
)


def draw(assets: Assets, clip: Clip, sides: Sides, rows: Sequence[Row]) -> list[Panel]:
    """The panels of one clip."""
    codes, problem = _codes(sides)
    first = codes.first_mismatch if codes else None
    panels = [_grid(codes, problem), *_margins(codes)] if codes else [Panel("Codes not drawn", problem)]
    return [
        *panels,
        *_four_way(rows, codes),
        _sounds(assets, sides, first[0] if first else 0),
        *tap_panels(sides, rows),
    ]


def _codes(sides: Sides) -> tuple[Codes | None, str]:
    """What both sides have of codes, compared; and what of it is missing, in words."""
    from harness.tasks.codec import FRAME_SAMPLES, RATE_HZ, TIE_MARGIN

    missing = [side.implementation for side in (sides.reference, sides.port) if PLACE not in side.tensors]
    if missing:
        return None, f"no tensor {PLACE} from {', '.join(missing)}"
    expected, obtained = sides.reference.tensors[PLACE], sides.port.tensors[PLACE]
    if expected.ndim != 2 or obtained.ndim != 2:
        return None, f"codes of shapes {list(expected.shape)} and {list(obtained.shape)} cannot be compared"
    codebooks, frames = (min(sizes) for sizes in zip(expected.shape, obtained.shape, strict=True))
    common = np.s_[:codebooks, :frames]
    if not codebooks or not frames:
        return None, f"no codes in common: shapes {list(obtained.shape)}, reference {list(expected.shape)}"
    nearest = _nearest(sides.reference.tensors, expected)
    near, distances = (nearest[0][common], nearest[1][common]) if nearest else (None, None)
    try:
        found = classify(expected[common], obtained[common], near, distances, TIE_MARGIN)
    except NotComparable as reason:
        return None, str(reason)
    notes = [] if nearest else ["no distances from the reference, so that ties count as roots"]
    if expected.shape != obtained.shape:
        notes.append(f"shape {list(obtained.shape)}, reference {list(expected.shape)}: only what both have is drawn")
    codes = Codes(expected[common], obtained[common], found, TIE_MARGIN, FRAME_SAMPLES / RATE_HZ)
    return codes, "; ".join(notes)


def _nearest(tensors: Mapping[str, NDArray[Any]], expected: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """The reference's nearest entries and their distances, None where it has none that fit its codes."""
    near, distances = tensors.get("candidates"), tensors.get("distances")
    if near is None or distances is None or near.shape != distances.shape:
        return None
    return (near, distances) if near.shape[:-1] == expected.shape and near.shape[-1] else None


def _grid(codes: Codes, problem: str) -> Panel:
    codebooks, frames = codes.reference.shape
    found = codes.found
    counts = ", ".join(counted(found.count(kind), kind) for kind in NAMES)
    notes = [f"{codebooks} codebooks × {frames} frames: {counts}", problem]
    first, root = codes.first_mismatch, found.first_root
    if first and first != root:
        notes.append(f"first divergence, a tie: {codes.summary(*first)}")
    if root:
        notes.append(f"first {'divergence, a ' if first == root else ''}root: {codes.summary(*root)}")
    legend = tuple((name, STYLES[kind]) for kind, name in NAMES.items())
    return Panel("Codes", "; ".join(note for note in notes if note), code_grid(codes), legend=legend)


def _margins(codes: Codes) -> list[Panel]:
    figure = margin_plot(codes)
    if figure is None:
        return []
    note = (
        "how much farther than the reference's entry the port's lies from what the reference quantised, in tie limits "
        f"of {number(codes.tie_margin)}; dots: ties, crosses: roots, triangles: roots of at least that margin"
    )
    return [Panel("Margins of ties and roots", note, figure)]


def _four_way(rows: Sequence[Row], codes: Codes | None) -> list[Panel]:
    own = {str(row["place"]): row for row in rows if row["metric"] == "four_way_nrmse"}
    if not own:
        return []
    errors = {place: float(row["value"]) for place, row in own.items()}
    note = f"normalised RMS error against the reference's codes in the reference's decoder; {_blame(errors, codes)}"
    return [Panel("Encoder or decoder", note, _table(own))]


def _blame(errors: Mapping[str, float], codes: Codes | None) -> str:
    """Which half of the port accounts for the error; what cannot be compared counts as an error."""
    halves = {"the encoder": PORT_REFERENCE, "the decoder": REFERENCE_PORT}
    if absent := [half for half, place in halves.items() if place not in errors]:
        return f"nothing is blamed: no measurement of {' and '.join(absent)} alone"
    blamed = [half for half, place in halves.items() if not errors[place] <= BLAMED_NRMSE]
    words = {0: "neither", 1: "".join(blamed), 2: "both"}[len(blamed)]
    if "the encoder" in blamed and codes is not None and codes.found.count(TIE) and not codes.found.count(ROOT):
        words += ", by ties alone" if len(blamed) == 1 else ", the encoder by ties alone"
    return f"to blame (above {number(BLAMED_NRMSE)}): {words}"


def _table(own: Mapping[str, Row]) -> Markup:
    """Rows of encoders, columns of decoders."""
    table = Markup(
        '<table class="four-way"><thead><tr><td></td><th scope="col" class="figure">reference decoder</th>'
        '<th scope="col" class="figure">port decoder</th></tr></thead><tbody>'
        '<tr><th scope="row">reference codes</th><td class="figure muted">compared against</td>{0}</tr>'
        '<tr><th scope="row">port codes</th>{1}{2}</tr></tbody></table>'
    )
    return table.format(*(_value(own.get(place)) for place in (REFERENCE_PORT, PORT_REFERENCE, PORT_PORT)))


def _value(row: Row | None) -> Markup:
    text = "not measured"
    if row is not None:
        value = float(row["value"])
        text = "0 (exact)" if value == 0 else number(value) if row["state"] == "measured" else str(row["state"])
    style = "" if row is not None and float(row["value"]) <= BLAMED_NRMSE else " mark" if row is not None else " muted"
    return Markup('<td class="figure{0}">{1}</td>').format(style, text)


def _sounds(assets: Assets, sides: Sides, frame: int) -> Panel:
    """The four decodings; of long ones the part around the first divergence."""
    from harness.tasks.codec import FRAME_SAMPLES, GIVEN, RATE_HZ

    ways = (
        ("reference → reference", sides.reference, "waveform"),
        ("reference codes → port decoder", sides.port, f"{GIVEN}waveform"),
        ("port codes → reference decoder", sides.reference, f"{GIVEN}waveform"),
        ("port → port", sides.port, "waveform"),
    )
    players = []
    for title, side, name in ways:
        samples = side.tensors.get(name)
        if samples is None:
            players.append(Player(title, note=f"no tensor {name} from {side.implementation}"))
        elif samples.ndim not in (1, 2):
            players.append(Player(title, note=f"shape {list(samples.shape)} cannot be played"))
        else:
            players.append(player(assets, title, samples, RATE_HZ, frame * FRAME_SAMPLES))
    return Panel("Decoded", "codes → decoder", tiles=tuple(Tile(player=made) for made in players))
