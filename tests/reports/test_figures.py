"""Figures, sounds and pictures show what they are given."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from harness.plan import bare
from reports.audio import Assets, difference_player, player
from reports.details import DRAWINGS
from reports.details.panels import difference
from reports.figures import SCALE_WIDTH, Curve, envelope, error_over_time, gate_scale, speech_curves, tap_bars
from reports.spectrograms import FLOOR_DB, ROWS, levels_db
from reports.stored import bounded, number


def marker_x(value: float | None, limit: float, unit: str = "1") -> float:
    passed = value is not None and value <= limit
    text = gate_scale(value, limit, unit, "pass" if passed else "fail")
    found = re.search(r'cx="([\d.]+)"' if passed else r'd="M([\d.]+)', text)
    assert found
    return float(found.group(1))


def test_scale_puts_passing_values_before_the_limit_and_failing_ones_after():
    limit_x = SCALE_WIDTH * 6 / 9
    assert marker_x(1e-6, 1e-6) == pytest.approx(limit_x, abs=0.1)
    # Two decades below: two ninths of the width to the left.
    assert marker_x(1e-8, 1e-6) == pytest.approx(limit_x - SCALE_WIDTH * 2 / 9, abs=0.1)
    assert marker_x(1e-4, 1e-6) > limit_x
    assert marker_x(-140.0, -120.0, "dBFS") < limit_x
    assert marker_x(-90.0, -120.0, "dBFS") > limit_x
    assert marker_x(1.0, 0.0, "samples") > limit_x
    assert marker_x(float("inf"), 0.0, "ms") == marker_x(float("inf"), 1.0, "ms") > limit_x
    assert marker_x(-0.5, 0.01, "dB") < marker_x(0.001, 0.01, "dB") < limit_x < marker_x(0.02, 0.01, "dB")


def test_scale_tells_exact_and_missing_values_in_words():
    assert ">exact<" in gate_scale(0.0, 0.0, "samples", "pass")
    assert "exactly 0" in gate_scale(0.0, 1e-6, "1", "pass")
    for value in (None, float("nan")):
        assert ">no value<" in gate_scale(value, 1e-6, "1", "fail")


def test_scale_marks_nothing_that_was_not_judged():
    # Two clips were measured before the port crashed: a marker in the good part would tell of a pass.
    text = gate_scale(0.0, 1e-6, "1", "error")
    assert ">not judged<" in text
    assert "marker" not in text


@given(
    value=st.none() | st.floats(allow_nan=True, allow_infinity=True),
    limit=st.floats(-1e9, 1e9),
    unit=st.sampled_from(["1", "dB", "samples", "<&>"]),
    status=st.sampled_from(["pass", "fail", "error"]),
)
def test_scale_is_well_formed_for_any_numbers(value: float | None, limit: float, unit: str, status: str):
    root = ElementTree.fromstring(gate_scale(value, limit, unit, status))
    for element in root.iter():
        for name in ("cx", "x"):
            assert 0 <= float(element.get(name, "0")) <= SCALE_WIDTH


def test_envelope_keeps_the_extremes_of_long_signals():
    samples = np.zeros((2, 100_003))
    samples[0, 77_777], samples[1, 5] = 3.0, -2.0
    low, high = envelope(samples)
    assert len(low) == len(high) == 800
    assert (low.min(), high.max()) == (-2.0, 3.0)
    assert high.argmax() == int(77_777 / 100_003 * 800)


def test_error_over_time_says_when_it_is_exactly_zero():
    assert "0 (exactly)" in error_over_time(np.zeros(100), 16000)
    assert "at most 0.25" in error_over_time(np.array([0.0, -0.25]), 16000)


def test_curves_escape_text_and_keep_their_place_in_time():
    curves = [Curve("<b>", np.array([0.0, 1.0]), 0.5, "a"), Curve("port", np.array([0.0, 1.0, 0.0, 1.0]), 1.0, "b")]
    text = speech_curves(np.zeros(16), 1.0, curves, 0.5, [[(0.1, 0.2)], []])
    assert "<b>" not in text
    xs = [
        [float(point.split(",")[0]) for point in points.split()]
        for points in re.findall(r'<polyline class="curve \w" points="([^"]*)"', text)
    ]
    # The shorter curve covers half of the time: its values stand where the first two of the longer one stand.
    assert xs[0] == xs[1][:2]


def test_taps_draw_zero_and_nan():
    text = tap_bars([("spectrum", 0.0), ("lstm", 1e-3), ("broken", float("nan"))])
    ElementTree.fromstring(text)
    assert "0 (exact)" in text
    assert "NaN" in text


def test_levels_show_a_tone_at_its_frequency_and_level():
    rate_hz, tone_hz = 16000, 2000
    tone = np.sin(2 * np.pi * tone_hz * np.arange(rate_hz) / rate_hz)
    levels = levels_db(tone, rate_hz)
    middle = levels[:, levels.shape[1] // 2]
    assert middle.max() == pytest.approx(0.0, abs=0.1)
    # Rows go from half the rate down to zero.
    assert abs((ROWS - 1 - middle.argmax()) / ROWS * rate_hz / 2 - tone_hz) < 2 * rate_hz / 2 / ROWS
    assert levels_db(np.zeros(0), rate_hz).max() == FLOOR_DB


def test_player_writes_what_it_is_given_once(tmp_path: Path):
    assets = Assets(tmp_path / "assets")
    samples = np.array([[0.5, -0.5] * 1000, [2.0, -2.0] * 1000])
    first, second = (player(assets, title, samples, 16000) for title in ("one", "two"))
    assert first.link == second.link
    read, rate_hz = soundfile.read(tmp_path / first.link)
    assert rate_hz == 16000
    assert np.abs(read.T - samples.clip(-1, 1)).max() < 2**-14


def test_player_plays_the_part_around_the_worst_sample_of_a_long_signal(tmp_path: Path):
    samples = np.zeros(60 * 8000)
    samples[50 * 8000] = 0.9
    made = player(Assets(tmp_path / "assets"), "long", samples, 8000, around=50 * 8000)
    assert made.note == "from 40.0 s to 60.0 s"
    read, _ = soundfile.read(tmp_path / made.link)
    assert len(read) == 20 * 8000
    assert read.max() == pytest.approx(0.9, abs=1e-3)


def test_player_says_why_there_is_nothing_to_play(tmp_path: Path):
    assets = Assets(tmp_path / "assets")
    assert not player(assets, "short", np.ones(3), 16000).link
    assert not player(assets, "many", np.zeros((9, 16000)), 16000).link
    exact = difference_player(assets, "difference", np.zeros(16000), 16000, 0)
    assert (exact.link, exact.note) == ("", "exactly zero: nothing to hear")


@pytest.mark.parametrize(("peak", "gain_db"), [(1e-7, 120), (0.04, 20), (0.4, 0), (3.0, 0)])
def test_difference_is_amplified_by_the_gain_it_states(tmp_path: Path, peak: float, gain_db: int):
    values = np.zeros(16000)
    values[100] = peak
    made = difference_player(Assets(tmp_path / "assets"), "difference", values, 16000, 0)
    assert (f"+{gain_db} dB" in made.note) if gain_db else made.note == "not amplified"
    read, _ = soundfile.read(tmp_path / made.link)
    assert read.max() == pytest.approx(min(peak * 10 ** (gain_db / 20), 1.0), rel=1e-3)


def test_difference_needs_equal_channels_and_states_unequal_lengths():
    assert difference(np.zeros((2, 5)), np.zeros(5)) is None
    made = difference(np.zeros(5), np.ones(3))
    assert made
    assert made.values.tolist() == [1.0, 1.0, 1.0]
    assert made.note == "length 3, reference 5: only the first 3 drawn"


@given(st.text(max_size=300), st.integers(10, 100))
def test_bounded_text_has_no_control_characters(text: str, characters: int):
    short = bounded(text, characters)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", short)
    assert len(short) <= characters + 40
    ElementTree.fromstring(f"<a>{short.replace('&', '').replace('<', '').replace('>', '')}</a>")


def test_numbers_are_short_and_never_hide_nan():
    assert [number(value) for value in (None, float("nan"), 0.0, 1.23456e-7, -0.5, 1e6)] == [
        "—", "NaN", "0", "1.23e-7", "-0.5", "1e6",
    ]  # fmt: skip


def test_every_task_of_a_family_has_a_drawing():
    from harness.families import load_families

    families = load_families()
    assert families
    assert {family.task for family in families} <= set(DRAWINGS)
    assert bare("family/name@frozen") == "family/name"
