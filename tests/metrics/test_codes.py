"""Codes: what is a tie, a root, a cascade; delays and exchanged codebooks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.metrics import codes
from harness.metrics.tensors import NotComparable

SHAPE = (5, 6)


def made(seed=0, shape=SHAPE):
    """Codes with 8 candidates each, distances 1.0, 1.1, … 1.7."""
    random = np.random.default_rng(seed)
    candidates = np.stack([random.permutation(2048)[:8] for _ in range(shape[0] * shape[1])]).reshape(*shape, 8)
    distances = np.broadcast_to(1 + np.arange(8) / 10, candidates.shape).astype(np.float64)
    return candidates[..., 0].copy(), candidates, distances.copy()


def test_equal_codes_all_match():
    reference, near, distances = made()
    found = codes.classify(reference, reference, near, distances, 1e-5)
    assert (found.grid == codes.MATCH).all()
    assert found.first_mismatch is None
    assert found.first_root is None


def test_a_near_entry_is_a_tie_and_what_follows_in_its_frame_a_cascade():
    reference, near, distances = made()
    distances[1, 2, 1] = 1.000001
    port = reference.copy()
    port[1, 2] = near[1, 2, 1]
    port[3, 2] += 1
    found = codes.classify(reference, port, near, distances, 1e-5)
    assert found.grid[1, 2] == codes.TIE
    assert found.grid[3, 2] == codes.CASCADE
    assert found.margins[1, 2] == pytest.approx(1e-6)
    assert found.first_root is None
    assert found.first_mismatch == (2, 1)


def test_the_semantic_codebook_causes_no_cascade_among_the_acoustic_ones():
    reference, near, distances = made()
    port = reference.copy()
    port[0, 3] = near[0, 3, 1]
    port[1, 3] = near[1, 3, 2]
    found = codes.classify(reference, port, near, distances, 1e-5)
    assert found.grid[0, 3] == codes.ROOT
    assert found.grid[1, 3] == codes.ROOT
    assert found.margins[1, 3] == pytest.approx(0.2)


def test_an_entry_beyond_the_candidates_is_a_root_with_a_bound():
    reference, near, distances = made()
    port = reference.copy()
    port[2, 0] = next(entry for entry in range(2048) if entry not in near[2, 0])
    found = codes.classify(reference, port, near, distances, 10.0)
    assert found.grid[2, 0] == codes.ROOT
    assert found.bounded[2, 0]
    assert found.margins[2, 0] == pytest.approx(0.7)


@pytest.mark.parametrize("late", [-4, -1, 1, 3])
def test_codes_that_are_late_are_found(late):
    reference = made(shape=(4, 40))[0]
    assert codes.late_frames(reference, np.roll(reference, late, axis=1)) == late


def test_constant_codes_are_neither_late_nor_exchanged():
    silent = np.full((4, 20), 7)
    assert codes.late_frames(silent, silent + 1) == 0
    assert codes.late_frames(silent, silent) == 0
    assert codes.moved_codebooks(silent, silent) == {}


def test_exchanged_codebooks_are_named():
    reference = made(shape=(4, 20))[0]
    assert codes.moved_codebooks(reference, reference[[0, 3, 2, 1]]) == {1: 3, 3: 1}


@pytest.mark.parametrize(
    ("port", "said"),
    [
        (np.zeros((5, 7), int), r"\[5, 7\].*\[5, 6\]"),
        (np.zeros(SHAPE), "float64"),
        (np.zeros(30, int), r"\[30\]"),
    ],
)
def test_what_cannot_be_compared_says_why(port, said):
    with pytest.raises(NotComparable, match=said):
        codes.match_rates(np.zeros(SHAPE, int), port)


def test_no_codes_are_not_a_pass():
    with pytest.raises(NotComparable, match="no codes"):
        codes.match_rates(np.zeros((5, 0), int), np.zeros((5, 0), int))


@given(st.integers(0, 99), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(1, 9)), max_size=12))
def test_every_mismatch_is_of_one_kind_and_no_cascade_comes_without_its_root(seed, changes):
    reference, near, distances = made(seed)
    port = reference.copy()
    for codebook, frame, by in changes:
        port[codebook, frame] = reference[codebook, frame] + by
    found = codes.classify(reference, port, near, distances, 1e-5)
    assert ((found.grid != codes.MATCH) == (port != reference)).all()
    for codebook, frame in np.argwhere(found.grid == codes.CASCADE):
        start = 0 if codebook == 0 else 1
        assert np.isin(found.grid[start:codebook, frame], (codes.TIE, codes.ROOT)).any()


@given(st.floats(0.01, 100))
def test_margins_are_relative(scale):
    reference, near, distances = made()
    port = reference.copy()
    port[1, 1] = near[1, 1, 3]
    plain = codes.classify(reference, port, near, distances, 1e-5).margins[1, 1]
    assert codes.classify(reference, port, near, distances * scale, 1e-5).margins[1, 1] == pytest.approx(plain)
