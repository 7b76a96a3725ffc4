"""The proof page, from contents with everything in them that the three commands can find."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from harness.errors import ParityError
from harness.runs import Run
from reports import write_proof
from reports.proof import SCALE_EDGE, SCALE_WIDTH, TAP_LABEL, TAP_SPAN, fault_views, gate_view, tap_views

from .conftest import HOSTILE, LONG
from .test_browser import CHROMIUM, browse
from .test_reports import Page

GATES = ["distance", "equality", "silent", "other-port"]


def cell(gate: str, status: str, effect: float | None, limit: float, margin: float | None) -> dict[str, Any]:
    reason = HOSTILE if status == "inconclusive" else ""
    return {"gate": gate, "status": status, "effect": effect, "unit": "1", "limit": limit, "margin": margin,
            "reason": reason}  # fmt: skip


def fault(name: str, status: str, cells: list[dict[str, Any]], clips: list[str], **more: Any) -> dict[str, Any]:
    caught = [item["gate"] for item in cells if item["status"] == "fail"]
    return {
        "fault": name, "description": "what a porter did", "implementation": "family/port", "seen": "in a known port",
        "status": status, "reason": "", "caught_by": caught, "strongest_gate": caught[0] if caught else "",
        "effect": None, "unit": "1", "margin": None, "clips": clips, "all_clips": 3, "gates": cells, **more,
    }  # fmt: skip


def faults_content(**more: Any) -> dict[str, Any]:
    faults = [
        fault(
            "everywhere",
            "caught",
            [cell("distance", "fail", 0.5, 0.001, 500.0), cell("equality", "fail", 4.0, 0.0, None),
             cell("silent", "pass", 0.0, 1.0, 0.0)],
            ["a", "b", "c"],
        ),
        fault("no-output", "caught", [cell("distance", "fail", None, 0.001, None)], ["short-tail"]),
        fault("unseen", "survived", [cell("distance", "pass", 0.0005, 0.001, 0.5)], []),
        fault(HOSTILE, "not judged", [cell("distance", "inconclusive", None, 0.001, None)], [],
              reason=HOSTILE, description=HOSTILE, seen=LONG),
    ]  # fmt: skip
    alarm = {"variation": "ulp-up", "gate": "distance", "port": "family/port", "value": None, "limit": 0.001,
             "unit": "1", "scope": "recordings", "worst_clip": HOSTILE, "reason": ""}  # fmt: skip
    return {
        "family": "family", "run": "", "gates": GATES, "faults": faults, "survived": ["unseen"],
        "false_alarms": [alarm], "unproven_gates": ["silent", "other-port"],
        "redundant_gates": ["equality", "silent", "other-port"], "variations": ["plain", "ulp-up"],
        "unjudged": [{"name": HOSTILE, "gate": "", "reason": HOSTILE}], **more,
    }  # fmt: skip


def gate(
    name: str, floor: float | None, limit: float, smallest: float | None, state: str, **more: Any
) -> dict[str, Any]:
    return {
        "gate": name, "metric": "metric", "unit": "1", "floor": floor, "floor_from": "family/ref+threads-2",
        "limit": limit, "smallest_fault": smallest, "smallest_fault_name": "everywhere", "state": state,
        "suggested": limit, "note": "", **more,
    }  # fmt: skip


SOUND = gate("distance", 1e-6, 1e-4, 1e-2, "sound")
ZERO = gate("equality", 0.0, 0.0, 2.0, "sound", note="kept: a floor of 0")
TIGHT = gate("tight", 1e-3, 1e-5, 1e-2, "too tight", suggested=None, note="<b>bold</b>")
BLIND = gate("blind", 1e-6, 1e-2, None, "blind", smallest_fault_name="")
BROKEN = gate("broken", None, 1e-2, None, "too tight")
UNKNOWN = gate(LONG, None, 1e-2, 1.0, "not measured", floor_from="")
LEVEL = gate("level", -90.0, -60.0, -20.0, "sound", unit="dB")


def floor_content() -> dict[str, Any]:
    gates = [SOUND, ZERO, TIGHT, BLIND, BROKEN, UNKNOWN, LEVEL]
    unjudged = [{"name": "family/other", "gate": "", "reason": HOSTILE}]
    return {"family": "family", "run": "", "versions": "1", "gates": gates, "unjudged": unjudged}


def tap(name: str, error: float | None, status: str, **more: Any) -> dict[str, Any]:
    return {"tap": name, "error": error, "floor": 1e-6, "isolated": None, "note": "", "status": status, **more}


def trace_content(**more: Any) -> dict[str, Any]:
    taps = [
        tap("framed", 0.0, "agrees"),
        tap("stft", 1e-7, "agrees"),
        tap("encoder/convolution", 0.2, "diverges", isolated=0.1, note="largest at [3]"),
        tap("lstm", 0.4, "inherited", isolated=1e-8),
        tap("state", 1e-3, "drift"),
        tap("extra", None, "unmatched", note="not in the port"),
        tap("output/" + LONG, None, "inherited", note=HOSTILE),
    ]
    explanations = [
        {"fault": "everywhere", "explained": 0.9987, "declared": True, "description": "what a porter did"},
        {"fault": HOSTILE, "explained": 0.25, "declared": False, "description": HOSTILE},
    ]
    return {
        "family": "family", "port": "family/port", "clip": "voice-00", "taps": taps,
        "first_divergence": "encoder/convolution", "explanations": explanations, "convincing": True, "has_taps": True,
        "notes": [HOSTILE], "run": "", **more,
    }  # fmt: skip


def run_with(folder: Path, **contents: Any) -> Run:
    run = Run(folder / "20260101T000000Z-abcdef")
    for name, content in contents.items():
        run.write_json(f"{name}.json", content)
    return run


@pytest.fixture
def proven(tmp_path: Path) -> Run:
    run = run_with(tmp_path, faults=faults_content(), floor=floor_content(), trace=trace_content())
    write_proof(run)
    return run


def text_of(run: Run) -> str:
    return (run.folder / "report" / "proof.html").read_text(encoding="utf-8")


def words_of(run: Run) -> str:
    return " ".join("".join(Page(text_of(run)).words).split())


def test_page_needs_no_network_and_hostile_text_never_acts(proven: Run):
    page = Page(text_of(proven))
    assert page.tags["script"] == page.tags["b"] == 0
    assert page.handlers == []
    assert page.targets
    for target in page.targets:
        assert target == "data:," or (target.startswith("#") and page.ids[target[1:]] == 1), target
    assert "dataset.hacked" in "".join(page.words)
    assert "<b>bold</b>" in "".join(page.words)
    assert "url(" not in text_of(proven)
    assert "@import" not in text_of(proven)


def test_headings_go_down_one_level_at_a_time_and_every_drawing_has_a_text(proven: Run):
    page = Page(text_of(proven))
    assert page.levels[0] == 1
    assert page.levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(page.levels, page.levels[1:], strict=False))
    assert len(page.pictures) == len(floor_content()["gates"]) + 1
    assert all(picture["aria-label"] for picture in page.pictures)


def test_what_was_found_is_said_in_words(proven: Run):
    words = words_of(proven)
    assert "1 of 4 faults survived, caught by no gate: unseen." in words
    assert "1 false alarm: a gate failed without a fault. gate distance on family/port, variation ulp-up" in words
    assert "2 gates unproven, no fault trips them: silent, other-port." in words
    assert "1 gate redundant, every fault it catches is caught by another gate too: equality." in words
    assert "2 of 7 gates too tight: the references themselves are beyond the limit: tight, broken." in words
    assert "1 of 7 gates blind: no planted fault exceeds the limit: blind." in words
    assert "1 of 7 gates not measured" in words
    assert "3 of 7 gates sound: distance, equality, level." in words
    assert "First divergence: encoder/convolution, error 0.2, floor 1e-6" in words
    assert "1 tap unmatched, on one side only: extra" in words
    assert "everywhere, 99.87 %" in words
    assert "Visible on: short-tail" in words
    assert "25.00 %" in words


def test_a_clean_matrix_says_so(tmp_path: Path):
    content = faults_content(survived=[], false_alarms=[], unproven_gates=[], redundant_gates=[], unjudged=[])
    content["faults"] = content["faults"][:2]
    run = run_with(tmp_path, faults=content)
    write_proof(run)
    words = words_of(run)
    assert "No fault survived: all 2 faults are caught." in words
    assert "No false alarm" in words
    assert "No gate is unproven" in words
    assert "No proven gate is redundant" in words


def test_a_fault_that_was_not_judged_is_never_counted_as_caught(tmp_path: Path):
    content = faults_content(survived=[])
    content["faults"] = [content["faults"][0], content["faults"][3]]
    run = run_with(tmp_path, faults=content)
    write_proof(run)
    assert "No fault survived" not in words_of(run)
    assert "1 of 2 faults caught, the others not judged." in words_of(run)


def test_cells_give_the_margin_with_a_sign():
    unseen, hostile, everywhere, no_output = fault_views(faults_content())
    assert [(item.sign, item.text) for item in everywhere.cells] == [("●", "500×"), ("●", "∞"), ("·", ""), ("", "")]
    assert (everywhere.smallest, everywhere.smallest_gate) == ("0.5", "distance")
    assert everywhere.clips == "all 3"
    assert (no_output.smallest, no_output.clips) == ("not comparable", "1 of 3")
    assert (unseen.smallest, unseen.cells[0].words) == ("—", "not caught")
    assert hostile.cells[0].words == "inconclusive"


def places(content: dict[str, Any]) -> dict[str, float]:
    return {mark.kind: mark.x for mark in gate_view(content).marks}


def test_scales_order_the_marks_as_the_values_are_ordered():
    found = places(SOUND)
    assert found["limit"] - found["floor"] == pytest.approx(found["fault"] - found["limit"], abs=0.2)  # equal decades
    assert found["floor"] < found["limit"]
    tight = places(TIGHT)
    assert tight["limit"] < tight["floor"] < tight["fault"]
    level = places(LEVEL)
    assert level["floor"] < level["limit"] < level["fault"]
    assert gate_view(LEVEL).linear


def test_zero_stands_at_the_left_end_and_what_cannot_be_compared_at_the_right():
    view = gate_view(ZERO)
    assert places(ZERO)["floor"] == SCALE_EDGE
    assert places(ZERO)["fault"] > view.log_from > SCALE_EDGE
    assert "floor 0" in [mark.text for mark in view.marks]
    assert places(BROKEN)["floor"] == SCALE_WIDTH - SCALE_EDGE
    assert "fault" not in places(BLIND)
    assert "floor" not in places(UNKNOWN)


@pytest.mark.parametrize("values", [(1e-300, 1e300, 1.7e308), (5e-324, 1.0, 2.0), (0.0, 1e-9, None), (1.0, 1.0, 1.0)])
def test_every_mark_stands_within_its_scale(values: tuple[float, float, float | None]):
    for x in places(gate("any", *values, "sound")).values():
        assert SCALE_EDGE <= x <= SCALE_WIDTH - SCALE_EDGE


def test_tap_bars_grow_with_the_error_and_stay_within_the_chart():
    rows = {row.name: row for row in tap_views(trace_content())}
    assert rows["framed"].width == rows["extra"].width == 0
    assert 0 < rows["state"].width < rows["encoder/convolution"].width < rows["lstm"].width
    assert rows["encoder/convolution"].first
    assert rows["encoder/convolution"].text.endswith("first divergence")
    assert rows["lstm"].text.endswith("inherited, not blamed")
    assert rows["stft"].width + TAP_LABEL < rows["stft"].floor_x
    broken = tap_views(trace_content())[-1]
    assert broken.width == TAP_SPAN
    assert "not comparable" in broken.text


@pytest.mark.parametrize("error", [0.0, 5e-324, 1e-300, 1.0, 1.7e308])
def test_any_error_has_a_place(error: float):
    (row,) = tap_views(trace_content(taps=[tap("only", error, "agrees")]))
    assert math.isfinite(row.width)
    assert 0 <= row.width <= TAP_SPAN


def test_nothing_convincing_is_said(tmp_path: Path):
    run = run_with(tmp_path, trace=trace_content(convincing=False, first_divergence=None))
    write_proof(run)
    assert "No convincing explanation" in words_of(run)
    assert "First divergence:" not in words_of(run)
    assert "No divergence" not in words_of(run)


def test_an_empty_content_proves_nothing(tmp_path: Path):
    empty = faults_content(faults=[], gates=[], survived=[], false_alarms=[], variations=[])
    floor = {**floor_content(), "gates": []}
    trace = trace_content(taps=[], explanations=[], first_divergence=None)
    run = run_with(tmp_path, faults=empty, floor=floor, trace=trace)
    write_proof(run)
    words = words_of(run)
    for false_claim in ("No fault survived", "No false alarm", "Every limit is sound", "No divergence"):
        assert false_claim not in words
    assert "No tap was compared." in words


def test_only_what_the_run_holds_is_shown(tmp_path: Path):
    run = run_with(tmp_path, floor=floor_content())
    write_proof(run)
    assert "This run holds no faults.json: parity faults family makes one." in words_of(run)
    assert "The matrix" not in words_of(run)


def test_a_run_that_holds_nothing_is_refused_and_names_the_files(tmp_path: Path):
    with pytest.raises(ParityError, match=r"faults\.json, floor\.json, inject\.json, trace\.json"):
        write_proof(Run(tmp_path))


def test_a_damaged_content_is_refused_and_the_page_left_as_it_was(proven: Run):
    before = text_of(proven)
    proven.write_json("floor.json", {"family": "family"})
    with pytest.raises(ParityError, match="lacks gates, unjudged"):
        write_proof(proven)
    assert text_of(proven) == before


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium")
def test_screenshot_is_not_blank_and_nothing_overflows(proven: Run, tmp_path: Path):
    shutil.copy(proven.folder / "report" / "proof.html", proven.folder / "report" / "index.html")
    picture = tmp_path / "page.png"
    dom = browse(proven, tmp_path / "profile", "--dump-dom")
    assert "data-hacked" not in (re.search(r"<html[^>]*>", dom) or [""])[0]
    browse(proven, tmp_path / "profile", f"--screenshot={picture}", "--window-size=1200,2400")
    with Image.open(picture) as image:
        pixels = np.asarray(image.convert("L"), dtype=float)
    assert pixels[:, 240:1180].std() > 10
    assert pixels[:, 1190:].std() < 2
