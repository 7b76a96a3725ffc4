"""Laws of the voice-activity metrics, and equality with the published segmenter on any course of probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.metrics.voice_activity import (
    SegmentOptions,
    boundary_error_ms,
    decision_flips,
    probability_error,
    segments,
)
from tests.strategies import probabilities


@given(probabilities())
def test_a_course_agrees_with_itself(values):
    assert decision_flips(values, values) == 0
    assert probability_error(values, values) == (0, 0)
    found = segments(values, chunk_ms=32)
    assert boundary_error_ms(found, found) == 0


@given(probabilities(min_chunks=1), st.data())
def test_one_decision_turned_is_one_flip(values, data):
    at = data.draw(st.integers(0, len(values) - 1))
    port = values.copy()
    port[at] = 0 if values[at] >= 0.5 else 1
    assert decision_flips(values, port) == decision_flips(port, values) == 1
    assert not probability_error(values, port)[0] <= 1e-5


@given(probabilities(min_chunks=1), st.data())
def test_one_nan_is_always_seen(values, data):
    port = values.copy()
    port[data.draw(st.integers(0, len(values) - 1))] = np.nan
    assert not decision_flips(values, port) <= len(values)
    assert not probability_error(values, port)[0] <= 1
    assert not boundary_error_ms(segments(values, chunk_ms=32), segments(port, chunk_ms=32)) <= 1e9


@given(probabilities())
def test_segments_are_in_order_apart_and_within_the_waveform(values):
    found = segments(values, chunk_ms=32)
    flat = [0.0, *(boundary for segment in found for boundary in segment), 32.0 * len(values)]
    assert flat == sorted(flat)
    assert all(end - start > 250 for start, end in found)


@given(
    probabilities(),
    st.integers(0, 511),
    st.sampled_from([16000, 8000]),
    st.sampled_from([SegmentOptions(), SegmentOptions(0.5, 0.35, 64, 64, 80), SegmentOptions(0.5, 0.35, 0, 0, 20)]),
)
def test_segments_are_the_packages(values, missing, rate_hz, options):
    """`missing` samples of the last chunk are padding, which the package does not count as waveform."""
    package = pytest.importorskip("silero_vad.utils_vad")
    chunk = 512 if rate_hz == 16000 else 256
    length = max(0, len(values) * chunk - missing % chunk)
    published = package.get_speech_timestamps_from_probs(
        values.tolist(),
        sampling_rate=rate_hz,
        threshold=options.threshold,
        neg_threshold=options.negative_threshold,
        min_speech_duration_ms=options.min_speech_ms,
        min_silence_duration_ms=options.min_silence_ms,
        speech_pad_ms=options.pad_ms,
        audio_length_samples=length,
    )
    expected = [(1000 * one["start"] / rate_hz, 1000 * one["end"] / rate_hz) for one in published]
    ours = segments([*values.tolist()], chunk_ms=32, duration_ms=1000 * length / rate_hz, options=options)
    assert boundary_error_ms(expected, ours) < 1e-6
