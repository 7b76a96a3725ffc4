"""Voice-activity metrics by hand, and the segments against the published package."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness.clips import load_clips
from harness.metrics import voice_activity
from harness.metrics.tensors import NotComparable
from harness.metrics.voice_activity import SegmentOptions, boundary_error_ms, decision_flips, segments


def course(*runs):
    """`(value, chunks)` pairs to one array."""
    return np.concatenate([np.full(chunks, value, np.float32) for value, chunks in runs])


def test_probability_error_by_hand():
    reference, port = course((0.5, 4)), course((0.5, 3), (0.75, 1))
    assert voice_activity.probability_error(reference, port) == (0.25, 0.125)


def test_flips_are_counted_at_the_threshold_which_belongs_to_speech():
    reference = np.array([0.49, 0.5, 0.51, 0.1, 0.9])
    port = np.array([0.5, 0.49, 0.9, 0.2, 0.4])
    assert decision_flips(reference, port) == 3
    assert decision_flips(reference, port, threshold=0.15) == 1


def test_a_segment_by_hand():
    # Speech from chunk 10 (320 ms) to chunk 30 (960 ms), 30 ms added on either side.
    assert segments(course((0, 10), (1, 20), (0, 10)), chunk_ms=32) == [(290.0, 990.0)]


@pytest.mark.parametrize(("chunks", "found"), [(7, 0), (8, 1)])
def test_speech_must_be_longer_than_250_ms(chunks, found):
    assert len(segments(course((0, 10), (1, chunks), (0, 10)), chunk_ms=32)) == found


def test_speech_of_exactly_the_minimum_is_dropped():
    options = SegmentOptions(min_speech_ms=320)
    assert segments(course((0, 5), (1, 10), (0, 9)), chunk_ms=32, options=options) == []


@pytest.mark.parametrize(("pause", "found"), [(4, 1), (5, 2)])
def test_a_pause_must_last_100_ms(pause, found):
    # The pause is known to last when a fifth quiet chunk begins 128 ms after the first.
    assert len(segments(course((1, 20), (0, pause), (1, 20)), chunk_ms=32)) == found


def test_between_the_thresholds_speech_goes_on_but_does_not_begin():
    assert segments(course((0.4, 30)), chunk_ms=32) == []
    assert segments(course((1, 10), (0.4, 20), (0, 10)), chunk_ms=32) == [(0.0, 990.0)]
    assert segments(course((1, 10), (0.35, 20), (0, 10)), chunk_ms=32) == [(0.0, 990.0)]


def test_a_pause_that_fades_through_doubt_ends_where_it_began():
    # Quiet for one chunk, doubtful for four, quiet again: the pause counts from its first quiet chunk.
    assert segments(course((1, 10), (0, 1), (0.4, 4), (0, 5)), chunk_ms=32) == [(0.0, 350.0)]


def test_speech_to_the_end_ends_with_the_waveform():
    speech = course((0, 10), (1, 20))
    assert segments(speech, chunk_ms=32) == [(290.0, 960.0)]
    assert segments(speech, chunk_ms=32, duration_ms=950.5) == [(290.0, 950.5)]


def test_paddings_that_would_meet_share_the_pause():
    options = SegmentOptions(pad_ms=200)
    found = segments(course((1, 20), (0, 6), (1, 20)), chunk_ms=32, options=options)
    assert found == [(0.0, 736.0), (736.0, 1472.0)]


def test_nothing_is_no_speech():
    assert segments(np.zeros(0, np.float32), chunk_ms=32) == []


@pytest.mark.parametrize(
    ("reference", "port", "expected"),
    [
        ([], [], 0.0),
        ([(0.0, 100.0)], [(0.0, 100.0)], 0.0),
        ([(0.0, 100.0), (200.0, 300.0)], [(0.0, 132.0), (190.0, 300.0)], 32.0),
        ([(0.0, 100.0)], [], math.inf),
        ([(0.0, 100.0)], [(0.0, 50.0), (60.0, 100.0)], math.inf),
    ],
)
def test_boundary_error(reference, port, expected):
    assert boundary_error_ms(reference, port) == expected
    assert boundary_error_ms(port, reference) == expected


def test_nan_never_passes():
    good, bad = course((1, 20)), course((1, 20))
    bad[3] = np.nan
    for sides in ((good, bad), (bad, good), (bad, bad)):
        assert not voice_activity.probability_error(*sides)[0] <= 1
        assert not decision_flips(*sides) <= 100
        assert not boundary_error_ms(*(segments(side, chunk_ms=32) for side in sides)) <= 1e9


def test_what_is_no_course_of_probabilities_is_refused():
    with pytest.raises(NotComparable, match="the port has 3 chunks, the reference 4"):
        decision_flips(np.zeros(4), np.zeros(3))
    with pytest.raises(NotComparable, match="one probability per chunk"):
        voice_activity.probability_error(np.zeros((4, 1)), np.zeros((4, 1)))
    with pytest.raises(NotComparable, match="one probability per chunk"):
        segments(np.zeros((4, 1)), chunk_ms=32)
    with pytest.raises(ValueError, match="chunk_ms"):
        segments(np.zeros(4), chunk_ms=0)


# silero-vad 6.2.3 loads TorchScript, which PyTorch has called deprecated since 2.9 (seen December 2026).
@pytest.mark.filterwarnings("ignore:`torch.jit.load` is deprecated:DeprecationWarning")
@pytest.mark.slow
def test_segments_are_the_packages_on_real_speech(real_clips):
    """Twenty utterances through the package's own model and its own `get_speech_timestamps`."""
    silero_vad = pytest.importorskip("silero_vad")
    torch = pytest.importorskip("torch")
    model = silero_vad.load_silero_vad()
    found = 0
    for clip in load_clips(real_clips):
        samples = torch.from_numpy(clip.samples)
        published = silero_vad.get_speech_timestamps(samples, model, sampling_rate=clip.rate_hz)
        model.reset_states()
        probabilities = model.audio_forward(samples[None], clip.rate_hz)[0].numpy()
        ours = segments(probabilities, chunk_ms=32, duration_ms=1000 * clip.duration_s)
        to_ms = 1000 / clip.rate_hz
        expected = [(one["start"] * to_ms, one["end"] * to_ms) for one in published]
        assert boundary_error_ms(expected, ours) < 1e-9, clip.id
        found += len(ours)
    assert found >= 20
