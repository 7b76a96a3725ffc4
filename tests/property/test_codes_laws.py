"""Laws of the code metrics, on any codes and any differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.metrics import codes

TIE_MARGIN = 1e-4
ENTRIES, NEAREST = 2048, 8


def quantised(seed, codebooks=6, frames=9):
    """Codes [K, T] with their nearest entries and distances [K, T, 8]."""
    random = np.random.default_rng(seed)
    near = np.stack([random.permutation(ENTRIES)[:NEAREST] for _ in range(codebooks * frames)])
    steps = random.choice([1e-6, 1e-3, 0.1], (codebooks, frames, NEAREST)) * random.random((codebooks, frames, NEAREST))
    distances = random.uniform(0.5, 2, (codebooks, frames, 1)) * (1 + np.cumsum(steps, axis=2) - steps[..., :1])
    near = near.reshape(codebooks, frames, NEAREST)
    return near[..., 0].copy(), near, distances


def changed(reference, near, seed):
    """Some codes exchanged for another candidate or for any entry."""
    random = np.random.default_rng(seed)
    other = np.take_along_axis(near, random.integers(0, NEAREST, reference.shape)[..., None], axis=2)[..., 0]
    other = np.where(random.random(reference.shape) < 0.2, random.integers(0, ENTRIES, reference.shape), other)
    return np.where(random.random(reference.shape) < random.random(), other, reference)


SEEDS = st.integers(0, 2**32 - 1)
CODEBOOKS = st.integers(1, 8)


@given(SEEDS, CODEBOOKS)
def test_codes_match_themselves_in_place(seed, codebooks):
    reference, near, distances = quantised(seed, codebooks)
    found = codes.classify(reference, reference, near, distances, TIE_MARGIN)
    assert found.count(codes.MATCH) == reference.size
    assert found.first_mismatch is found.first_root is None
    assert np.isnan(found.margins).all()
    assert not found.bounded.any()
    assert (codes.match_rates(reference, reference) == 1).all()
    assert codes.late_frames(reference, reference) == 0
    assert codes.moved_codebooks(reference, reference) == {}


@given(SEEDS, SEEDS, CODEBOOKS)
def test_kinds_add_up_to_the_mismatches(seed, other, codebooks):
    reference, near, distances = quantised(seed, codebooks)
    port = changed(reference, near, other)
    found = codes.classify(reference, port, near, distances, TIE_MARGIN)
    assert sum(found.count(kind) for kind in (codes.TIE, codes.ROOT, codes.CASCADE)) == (reference != port).sum()
    assert ((found.grid == codes.MATCH) == (reference == port)).all()
    assert codes.match_rates(reference, port).mean() == pytest.approx(found.count(codes.MATCH) / reference.size)


@given(SEEDS, SEEDS, CODEBOOKS)
def test_the_first_mismatch_of_a_chain_and_frame_is_its_own_and_all_others_are_its_cascade(seed, other, codebooks):
    reference, near, distances = quantised(seed, codebooks)
    port = changed(reference, near, other)
    grid = codes.classify(reference, port, near, distances, TIE_MARGIN).grid
    for chain in (grid[:1], grid[1:]):
        for column in chain.T:
            kinds = column[column != codes.MATCH].tolist()
            assert all(kind in (codes.TIE, codes.ROOT) for kind in kinds[:1])
            assert all(kind == codes.CASCADE for kind in kinds[1:])


@given(SEEDS, SEEDS)
def test_a_tie_has_a_margin_within_the_limit_and_a_root_has_not(seed, other):
    reference, near, distances = quantised(seed)
    found = codes.classify(reference, changed(reference, near, other), near, distances, TIE_MARGIN)
    tie, root = found.grid == codes.TIE, found.grid == codes.ROOT
    assert (found.margins[tie] <= TIE_MARGIN).all()
    assert ((found.margins[root] > TIE_MARGIN) | found.bounded[root]).all()
    assert not found.bounded[~root].any()
    assert np.isnan(found.margins[~(tie | root)]).all()


@given(SEEDS, SEEDS, st.floats(1e-3, 1e3))
def test_margins_do_not_change_with_the_scale_of_the_distances(seed, other, scale):
    reference, near, distances = quantised(seed)
    port = changed(reference, near, other)
    plain, scaled = (
        codes.classify(reference, port, near, d, TIE_MARGIN).margins for d in (distances, scale * distances)
    )
    np.testing.assert_allclose(plain, scaled, rtol=1e-9, atol=1e-12)


@given(SEEDS, SEEDS)
def test_a_wider_limit_never_makes_a_root_of_a_tie(seed, other):
    reference, near, distances = quantised(seed)
    port = changed(reference, near, other)
    narrow, wide = (codes.classify(reference, port, near, distances, limit).grid for limit in (1e-7, 1e-2))
    assert (wide[narrow == codes.TIE] == codes.TIE).all()
    assert ((narrow == codes.CASCADE) == (wide == codes.CASCADE)).all()


@given(SEEDS, SEEDS)
def test_without_distances_nothing_is_a_tie(seed, other):
    reference, near, distances = quantised(seed)
    port = changed(reference, near, other)
    for unknown in (None, np.full_like(distances, np.nan)):
        found = codes.classify(reference, port, None if unknown is None else near, unknown, TIE_MARGIN)
        assert found.count(codes.TIE) == 0
        assert not found.bounded.any()
        assert (found.count(codes.ROOT) > 0) == (reference != port).any()


@given(SEEDS, st.integers(-4, 4), st.integers(8, 40), CODEBOOKS)
def test_random_codes_that_are_late_are_found(seed, late, frames, codebooks):
    random = np.random.default_rng(seed)
    longer = random.integers(0, ENTRIES, (codebooks, frames + 8))
    assert codes.late_frames(longer[:, 4 : 4 + frames], longer[:, 4 - late : 4 - late + frames]) == late


@given(SEEDS, st.integers(1, 30), CODEBOOKS, st.booleans())
def test_constant_codes_are_never_late_nor_moved(seed, frames, codebooks, port_is_constant):
    random = np.random.default_rng(seed)
    silent = np.repeat(random.integers(0, 3, (codebooks, 1)), frames, axis=1)
    any_codes = random.integers(0, 3, (codebooks, frames))
    sides = (any_codes, silent) if port_is_constant else (silent, any_codes)
    assert codes.late_frames(*sides) == 0
    assert codes.moved_codebooks(any_codes, silent) == {}


@given(SEEDS, CODEBOOKS, st.booleans())
def test_silence_that_only_one_end_gets_right_is_not_late(seed, codebooks, port_is_constant):
    silent = np.full((codebooks, 8), 7)
    half = silent.copy()
    half[:, :4] = np.random.default_rng(seed).integers(8, ENTRIES, (codebooks, 4))
    assert codes.late_frames(*((half, silent) if port_is_constant else (silent, half))) == 0


@given(SEEDS, st.permutations(range(6)))
def test_exchanged_codebooks_are_named(seed, order):
    reference = np.random.default_rng(seed).integers(0, ENTRIES, (6, 20))
    expected = {codebook: other for codebook, other in enumerate(order) if other != codebook}
    assert codes.moved_codebooks(reference, reference[list(order)]) == expected
