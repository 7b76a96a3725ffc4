"""A codec's clip shows the codes that were planted: ties, roots and cascades, their counts, places and texts."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from harness.clips import Clip
from harness.metrics.codes import CASCADE, MATCH, ROOT, TIE, classify
from harness.observations import Observation
from harness.tasks.codec import FRAME_SAMPLES, RATE_HZ, TIE_MARGIN
from reports.audio import Assets
from reports.code_grid import Codes, code_grid, margin_plot
from reports.details import DRAWINGS
from reports.details.codec import BLAMED_NRMSE, draw
from reports.details.panels import Panel, Sides
from reports.stored import bounded, number

FRAME_S = FRAME_SAMPLES / RATE_HZ
ENTRIES = 2048
NOTE_CHARACTERS = 400  # of clip.html.j2
Tensors = dict[str, np.ndarray]


def reference_side(codebooks: int = 32, frames: int = 50, seed: int = 0) -> Tensors:
    """Codes with eight neighbours each, at distances 1, 1 + half a tie limit, 1.5, 2 and so on."""
    codes = np.random.default_rng(seed).integers(0, ENTRIES, (codebooks, frames))
    distances = np.broadcast_to([1.0, 1 + TIE_MARGIN / 2, 1.5, 2, 2.5, 3, 3.5, 4], (codebooks, frames, 8))
    near = (codes[..., None] + np.arange(8)) % ENTRIES
    return {"codes": codes, "candidates": near.astype(np.int16), "distances": distances.astype(np.float64)}


def planted(reference: Tensors) -> np.ndarray:
    """The port's codes: a tie at frame 10, codebook 31; a root at frame 20, codebook 5, with 26 cascades after it; a
    root of which no margin is known but a bound, at frame 30, codebook 0."""
    port: np.ndarray = reference["codes"].copy()
    port[31, 10] = reference["candidates"][31, 10, 1]
    port[5, 20] = reference["candidates"][5, 20, 2]
    port[6:, 20] = (port[6:, 20] + 100) % ENTRIES
    port[0, 30] = (port[0, 30] + 900) % ENTRIES
    return port


def compared(reference: Tensors, port: np.ndarray) -> Codes:
    found = classify(reference["codes"], port, reference["candidates"], reference["distances"], TIE_MARGIN)
    return Codes(reference["codes"], port, found, TIE_MARGIN, FRAME_S)


def sides(reference: Tensors, port: Tensors) -> Sides:
    return Sides(*(Observation(n, "c", "0", "1", t) for n, t in (("mimi/reference", reference), ("mimi/port", port))))


def clip(frames: int = 50) -> Clip:
    return Clip("c", np.zeros(frames * FRAME_SAMPLES, np.float32), RATE_HZ)


def error_row(place: str, value: float, metric: str = "four_way_nrmse", state: str = "measured") -> dict[str, Any]:
    return {"metric": metric, "place": place, "value": value, "unit": "1", "state": state, "detail": ""}


def four_way(encoder: float, decoder: float) -> list[dict[str, Any]]:
    return [
        error_row("port codes, port decoder", max(encoder, decoder)),
        error_row("reference codes, port decoder", decoder),
        error_row("port codes, reference decoder", encoder),
    ]


def drawn(
    folder: Path, reference: Tensors, port: Tensors, rows: list[dict[str, Any]] | None = None
) -> dict[str, Panel]:
    panels = draw(Assets(folder / "assets"), clip(), sides(reference, port), rows or [])
    for panel in panels:
        if panel.figure is not None:
            ElementTree.fromstring(panel.figure)
    return {panel.title: panel for panel in panels}


def titles(figure: str, style: str) -> list[str]:
    """The texts of the marks drawn in a style."""
    root = ElementTree.fromstring(figure)
    groups = [element for element in root.iter() if element.get("class") == style]
    return [text.text or "" for group in groups for text in group.iter("title")]


def test_note_counts_what_was_planted_and_says_where_it_begins(tmp_path: Path):
    reference = reference_side()
    panel = drawn(tmp_path, reference, {"codes": planted(reference)})["Codes"]
    assert "32 codebooks × 50 frames: 1571 matches, 1 tie, 2 roots, 26 cascades" in panel.note
    tie, root = reference["codes"][31, 10], reference["codes"][5, 20]
    assert (
        f"first divergence, a tie: frame 10 (0.80 s), codebook 31, entry {(tie + 1) % ENTRIES}, "
        f"reference {tie}, margin 0.5 × tie limit"
    ) in panel.note
    assert (
        f"first root: frame 20 (1.60 s), codebook 5, entry {(root + 2) % ENTRIES}, reference {root}, "
        f"margin {number(0.5 / TIE_MARGIN)} × tie limit"
    ) in panel.note
    assert [name for name, _ in panel.legend] == ["match", "tie", "root", "cascade"]


def test_a_divergence_that_is_the_root_is_told_once(tmp_path: Path):
    reference = reference_side()
    port = reference["codes"].copy()
    port[31, 7] = reference["candidates"][31, 7, 3]
    note = drawn(tmp_path, reference, {"codes": port})["Codes"].note
    assert "first divergence, a root: frame 7 (0.56 s), codebook 31" in note
    assert note.count("frame 7") == 1


def test_equal_codes_have_no_marks_and_no_margins(tmp_path: Path):
    reference = reference_side()
    panels = drawn(tmp_path, reference, {"codes": reference["codes"]})
    assert "1600 matches, 0 ties, 0 roots, 0 cascades" in panels["Codes"].note
    assert "first" not in panels["Codes"].note
    assert "Margins of ties and roots" not in panels
    assert "code-first" not in str(panels["Codes"].figure)


def test_hovering_tells_frame_time_codebook_entries_kind_and_margin():
    reference = reference_side()
    codes = compared(reference, planted(reference))
    figure = str(code_grid(codes))
    tie, root, semantic = (reference["codes"][place] for place in ((31, 10), (5, 20), (0, 30)))
    assert titles(figure, "code-tie") == [
        f"tie in frame 10 (0.80 s), codebook 31: reference's entry {tie}, port's entry {(tie + 1) % ENTRIES}, "
        "margin 0.5 × tie limit"
    ]
    assert titles(figure, "code-root") == [
        f"root in frame 20 (1.60 s), codebook 5: reference's entry {root}, port's entry {(root + 2) % ENTRIES}, "
        f"margin {number(0.5 / TIE_MARGIN)} × tie limit",
        f"root in frame 30 (2.40 s), codebook 0: reference's entry {semantic}, "
        f"port's entry {(semantic + 900) % ENTRIES}, margin at least {number(3 / TIE_MARGIN)} × tie limit",
    ]
    (cascade,) = titles(figure, "code-cascade")
    assert "frame 20 (1.60 s), codebooks 6 to 31" in cascade
    for codebook in range(6, 32):
        entry = reference["codes"][codebook, 20]
        assert f"{codebook}: {entry} → {(entry + 100) % ENTRIES}" in cascade
    rows = re.findall(r"<title>(codebook \d+, [^<]*)</title>", figure)
    assert len(rows) == 32
    assert rows[0] == "codebook 0, semantic: 49 matches, 0 ties, 1 root, 0 cascades"
    assert rows[31] == "codebook 31, acoustic: 48 matches, 1 tie, 0 roots, 1 cascade"


def cells(figure: str, codebooks: int, frames: int) -> np.ndarray:
    """The kinds [K, T] read back from where the boxes stand."""
    root = ElementTree.fromstring(figure)
    rows = [box for box in root.iter() if box.get("class") == "code-match"]
    assert len(rows) == codebooks
    left, span = float(rows[0].get("x", "")), float(rows[0].get("width", ""))
    tops = np.array([float(row.get("y", "")) for row in rows])
    grid = np.full((codebooks, frames), MATCH)
    for kind, style in ((CASCADE, "code-cascade"), (TIE, "code-tie"), (ROOT, "code-root")):
        for group in (element for element in root.iter() if element.get("class") == style):
            for box in group:
                x, y, height = (float(box.get(name, "")) for name in ("x", "y", "height"))
                covered = (tops >= y - 0.1) & (tops < y + height)
                grid[covered, round((x - left) / span * frames)] = kind
    return grid


@pytest.mark.parametrize(("codebooks", "frames", "wrong"), [(32, 450, 0.01), (8, 125, 0.05), (1, 3, 0.5), (2, 1, 0.5)])
def test_boxes_stand_where_the_codes_differ(codebooks: int, frames: int, wrong: float):
    reference = reference_side(codebooks, frames)
    rng = np.random.default_rng(1)
    ranks = np.where(rng.random((codebooks, frames)) < wrong, rng.integers(1, 3, (codebooks, frames)), 0)
    port = np.take_along_axis(reference["candidates"], ranks[..., None], axis=2)[..., 0].astype(np.int64)
    codes = compared(reference, port)
    np.testing.assert_array_equal(cells(str(code_grid(codes)), codebooks, frames), codes.found.grid)


def test_a_grid_in_which_all_differs_stays_small():
    reference = reference_side(32, 450)
    figure = str(code_grid(compared(reference, (reference["codes"] + 9) % ENTRIES)))
    ElementTree.fromstring(figure)
    assert len(figure) < 400_000
    assert "and 27 more" in figure


def test_margins_stand_on_their_side_of_the_limit():
    reference = reference_side()
    figure = margin_plot(compared(reference, planted(reference)))
    assert figure is not None
    root = ElementTree.fromstring(figure)
    limit = next(float(line.get("y1", "")) for line in root.iter() if line.get("class") == "threshold")
    (tie,) = [float(mark.get("cy", "")) for mark in root.iter() if mark.get("class") == "code-tie"]
    starts = {
        style: [
            float(m.get("d", "").split()[1].split("l")[0].split("h")[0]) for m in root.iter() if m.get("class") == style
        ]
        for style in ("code-cross", "code-root")
    }
    assert tie > limit  # y grows downwards
    assert [len(found) for found in starts.values()] == [1, 1]
    assert all(y < limit for found in starts.values() for y in found)
    assert titles(str(figure), "code-root")[0].endswith(f"margin at least {number(3 / TIE_MARGIN)} × tie limit")


@pytest.mark.parametrize("distance", [0.0, 1e-300, np.inf])
@pytest.mark.parametrize("rank", [1, 2])
def test_margins_without_a_logarithm_are_drawn_at_an_edge(distance: float, rank: int):
    reference = reference_side()
    reference["distances"] = reference["distances"].copy()
    # Two entries equally near: a margin of 0; the third is immeasurably farther.
    reference["distances"][31, 10, :2] = distance
    port = reference["codes"].copy()
    port[31, 10] = reference["candidates"][31, 10, rank]
    codes = compared(reference, port)
    ElementTree.fromstring(code_grid(codes))
    figure = margin_plot(codes)
    assert (figure is None) == bool(np.isnan(codes.found.margins[31, 10]))
    for element in ElementTree.fromstring(figure).iter() if figure else ():
        assert not re.search("nan|inf", " ".join(element.get(name, "") for name in ("d", "cx", "cy", "x1", "y1")))


@pytest.mark.parametrize(
    ("encoder", "decoder", "words"),
    [
        (0.0, 0.0, "neither"),
        (1e-5, 1e-6, "neither"),
        (0.3, 1e-6, "the encoder"),
        (0.0, 0.3, "the decoder"),
        (0.3, 0.4, "both"),
        (float("nan"), 1e-6, "the encoder"),
    ],
)
def test_blame_is_told_in_words(tmp_path: Path, encoder: float, decoder: float, words: str):
    reference = reference_side()
    panel = drawn(tmp_path, reference, {"codes": planted(reference)}, four_way(encoder, decoder))["Encoder or decoder"]
    assert panel.note.endswith(f"to blame (above 1.3e-5): {words}")


def test_an_encoder_that_differs_by_ties_alone_is_blamed_with_that_excuse(tmp_path: Path):
    reference = reference_side()
    port = reference["codes"].copy()
    port[31, 10] = reference["candidates"][31, 10, 1]
    panel = drawn(tmp_path, reference, {"codes": port}, four_way(0.02, 0.0))["Encoder or decoder"]
    assert panel.note.endswith("the encoder, by ties alone")
    panel = drawn(tmp_path, reference, {"codes": port}, four_way(0.02, 0.5))["Encoder or decoder"]
    assert panel.note.endswith("both, the encoder by ties alone")


def test_four_way_table_has_each_error_in_its_place(tmp_path: Path):
    reference = reference_side()
    rows = [error_row("port codes, port decoder", 0.5), error_row("reference codes, port decoder", 0.0)]
    rows += [error_row("port codes, reference decoder", float("nan"), state="invalid")]
    panel = drawn(tmp_path, reference, {"codes": planted(reference)}, rows)["Encoder or decoder"]
    table = ElementTree.fromstring(str(panel.figure))
    assert [[cell.text for cell in row] for row in table.iter("tr")] == [
        [None, "reference decoder", "port decoder"],
        ["reference codes", "compared against", "0 (exact)"],
        ["port codes", "invalid", "0.5"],
    ]
    partial = drawn(tmp_path, reference, {"codes": planted(reference)}, rows[:2])["Encoder or decoder"]
    assert "nothing is blamed: no measurement of the encoder alone" in partial.note
    assert "not measured" in str(partial.figure)


def test_four_decodings_are_played_and_missing_ones_are_named(tmp_path: Path):
    reference = reference_side()
    rng = np.random.default_rng(2)
    waves = [rng.uniform(-0.5, 0.5, 50 * FRAME_SAMPLES).astype(np.float32) for _ in range(4)]
    left = {**reference, "waveform": waves[0], "given/waveform": waves[1]}
    right = {"codes": planted(reference), "waveform": waves[2], "given/waveform": waves[3]}
    players = [tile.player for tile in drawn(tmp_path, left, right)["Decoded"].tiles]
    assert [made.title for made in players if made] == [
        "reference → reference",
        "reference codes → port decoder",
        "port codes → reference decoder",
        "port → port",
    ]
    assert len({made.link for made in players if made and made.link}) == 4
    del right["given/waveform"]
    second = drawn(tmp_path, left, right)["Decoded"].tiles[1].player
    assert second
    assert (second.link, second.note) == ("", "no tensor given/waveform from mimi/port")


def test_taps_are_drawn_when_measured(tmp_path: Path):
    reference = reference_side()
    rows = [error_row("tap/encoder.0", 1e-6, "tap_nrmse"), error_row("tap/quantized", 0.2, "tap_nrmse")]
    figure = str(drawn(tmp_path, reference, {"codes": reference["codes"]}, rows)["Taps"].figure)
    assert figure.index("encoder.0") < figure.index("quantized")


def test_fewer_codebooks_and_frames_are_stated(tmp_path: Path):
    reference = reference_side()
    panel = drawn(tmp_path, reference, {"codes": planted(reference)[:8, :49]})["Codes"]
    assert panel.note.startswith("8 codebooks × 49 frames: ")
    assert "shape [8, 49], reference [32, 50]: only what both have is drawn" in panel.note


def test_the_longest_note_is_shown_whole(tmp_path: Path):
    reference = reference_side(32, 4500)
    reference["codes"] = np.full_like(reference["codes"], 1000)
    reference["candidates"] = np.broadcast_to(1000 + np.arange(8), (32, 4500, 8))
    port = reference["codes"][:31, :4499].copy()
    port[30, 4400], port[29, 4401:] = 1001, 2000
    note = drawn(tmp_path, reference, {"codes": port})["Codes"].note
    assert "shape [31, 4499], reference [32, 4500]" in note
    assert "first root: frame 4401" in note
    assert bounded(note, NOTE_CHARACTERS) == note


def test_without_distances_nothing_passes_for_a_tie(tmp_path: Path):
    reference = reference_side()
    panels = drawn(tmp_path, {"codes": reference["codes"]}, {"codes": planted(reference)})
    assert "0 ties, 3 roots, 26 cascades" in panels["Codes"].note
    assert "no distances from the reference, so that ties count as roots" in panels["Codes"].note
    assert "margin unknown" in panels["Codes"].note
    assert "Margins of ties and roots" not in panels
    misshapen = {**reference, "candidates": reference["candidates"][:, :-1]}
    assert "no distances" in drawn(tmp_path, misshapen, {"codes": planted(reference)})["Codes"].note


@pytest.mark.parametrize(
    ("port", "reason"),
    [
        ({}, "no tensor codes from mimi/port"),
        ({"codes": np.zeros(50, np.int64)}, "cannot be compared"),
        ({"codes": np.zeros((32, 50), np.float32)}, "float32"),
        ({"codes": np.zeros((32, 0), np.int64)}, "no codes"),
        ({"codes": np.zeros((0, 50), np.int64)}, ""),
        ({"waveform": np.zeros((2, 3, 4), np.float32)}, "no tensor codes"),
    ],
)
def test_what_cannot_be_drawn_is_said(tmp_path: Path, port: Tensors, reason: str):
    panels = drawn(tmp_path, reference_side(), port)
    assert reason in panels["Codes not drawn"].note
    assert panels["Codes not drawn"].note
    assert panels["Codes not drawn"].figure is None
    assert len(panels["Decoded"].tiles) == 4


def test_hostile_names_do_not_act(tmp_path: Path):
    reference = reference_side()
    rows = [error_row("<script>alert(1)</script>", 1.0), error_row("tap/<b>", 1.0, "tap_nrmse")]
    panels = drawn(tmp_path, reference, {"codes": planted(reference)}, rows)
    assert not any("<script" in str(panel.figure) or "<b>" in str(panel.figure) for panel in panels.values())


def test_the_task_has_this_drawing():
    assert DRAWINGS["codec"].draw is draw
    from harness.tasks.codec import METRICS

    assert DRAWINGS["codec"].lead in METRICS
    assert {"four_way_nrmse", "tap_nrmse"} <= set(METRICS)


def test_a_half_is_blamed_from_where_its_gate_fails():
    gates = tomllib.loads((Path(__file__).parents[2] / "golden/gates/mimi.toml").read_text())["gate"]
    assert [gate["limit"] for gate in gates if gate["name"] == "decode"] == [BLAMED_NRMSE]
