"""How far one grid of codec codes is from another, and which differences are the cause and which the consequence.

Conventions
-----------
Codes are integers [K, T]: K codebooks, T frames; an entry is an index into its codebook. Codebook 0 (semantic) is
quantised by itself, codebooks 1 and up (acoustic) one after the other, each on what the one before left: two chains.
In a chain, one other entry changes every residual after it in that frame, so that only the first difference of a chain
and frame says something about the port; those after it are its cascade.

Candidates are [K, T, C], the C nearest entries of the reference's own residual, nearest first; distances are theirs,
Euclidean, not squared. A margin is how much farther the port's entry is than the reference's, relative to the
reference's: 0 is a tie of two equally near entries. Distances are of one chain and frame as the reference ran it.

Metrics
-------
match_rates      share of equal codes, by codebook
classify         every code as match, tie, root or cascade, with its margin
late_frames      frames by which the port is late, where that explains its codes
moved_codebooks  codebooks of the port that are another one of the reference
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.metrics.tensors import NotComparable

MATCH, TIE, ROOT, CASCADE = range(4)
# The first codebook of the semantic and of the acoustic chain.
CHAIN_STARTS = (0, 1)
LONGEST_SHIFT_FRAMES = 4
# Another place explains the codes when at least half of them match there, and clearly more than where they belong.
EXPLAINED_RATE = 0.5
CLEARLY_BETTER = 0.25
# Of fewer frames, half may match by chance: 31 other codebooks are tried.
LEAST_FRAMES = 8


@dataclass(frozen=True, eq=False)
class CodeComparison:
    """What `classify` found.

    grid: int8 [K, T] of MATCH, TIE, ROOT, CASCADE. margins: float64 [K, T]; NaN where codes match, where they are a
    cascade, and where no margin is known. bounded: bool [K, T], where the port's entry is not among the candidates, so
    that the margin is a lower bound: that of the farthest candidate.
    """

    grid: NDArray[np.int8]
    margins: NDArray[np.float64]
    bounded: NDArray[np.bool_]

    def count(self, kind: int) -> int:
        """How many codes are of this kind."""
        return int(np.count_nonzero(self.grid == kind))

    def only(self, places: NDArray[np.bool_]) -> CodeComparison:
        """The same, as if all codes but those of these places [K, T] matched."""
        return CodeComparison(
            np.where(places, self.grid, np.int8(MATCH)), np.where(places, self.margins, np.nan), self.bounded & places
        )

    @property
    def first_mismatch(self) -> tuple[int, int] | None:
        """(frame, codebook): the earliest frame that differs and its lowest codebook; None when all codes match."""
        return _first(self.grid != MATCH)

    @property
    def first_root(self) -> tuple[int, int] | None:
        """(frame, codebook) of the first root, None when there is none."""
        return _first(self.grid == ROOT)


def validate(reference: NDArray[Any], port: NDArray[Any]) -> None:
    """Raise NotComparable unless both sides are integers of one shape [K, T] with at least one code."""
    for side, codes in (("reference", reference), ("port", port)):
        if codes.ndim != 2:
            raise NotComparable(f"shape: the {side}'s codes have {list(codes.shape)}; [K, T] is needed")
        if codes.dtype.kind not in "iu":
            raise NotComparable(f"dtype: the {side}'s codes are {codes.dtype}; integers are needed")
    if reference.shape != port.shape:
        raise NotComparable(f"shape: the port's codes have {list(port.shape)}, the reference's {list(reference.shape)}")
    if reference.size == 0:
        raise NotComparable(f"shape: no codes in {list(reference.shape)}; nothing was compared")


def match_rates(reference: NDArray[Any], port: NDArray[Any]) -> NDArray[np.float64]:
    """Share of equal codes by codebook, [K]. Symmetric. Raises NotComparable when shapes differ or nothing is there."""
    validate(reference, port)
    return np.asarray((reference == port).mean(axis=1))


def _first(places: NDArray[np.bool_]) -> tuple[int, int] | None:
    found = np.argwhere(places.T)
    return (int(found[0, 0]), int(found[0, 1])) if len(found) else None


def _downstream(differs: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where an earlier codebook of the same chain and frame differs: bool [K, T] of bool [K, T]."""
    after = np.zeros_like(differs)
    for first, end in zip(CHAIN_STARTS, (*CHAIN_STARTS[1:], len(differs)), strict=True):
        after[first + 1 : end] = np.logical_or.accumulate(differs[first:end], axis=0)[:-1]
    return after


def classify(
    reference: NDArray[Any],
    port: NDArray[Any],
    candidates: NDArray[Any] | None,
    distances: NDArray[Any] | None,
    tie_margin: float,
) -> CodeComparison:
    """Tell every code of the port as a match, a tie, a root or a cascade.

    reference, port: [K, T]. candidates, distances: [K, T, C], or both None when the reference states none: no margin is
    then known. tie_margin: relative; a difference is a tie when its margin is at most this. A lower bound proves no
    tie, and no more does an unknown margin: those are roots. The margin is taken between the two entries, so that
    either may be the nearer one: the codes called reference need not be the nearest candidates.

    Raises NotComparable when shapes differ, ValueError for a negative tolerance.
    """
    validate(reference, port)
    if not tie_margin >= 0:
        raise ValueError(f"tie_margin is {tie_margin}: 0 or more is needed")
    differs = np.asarray(reference != port)
    cascade = differs & _downstream(differs)
    judged = differs & ~cascade
    margins, bounded = np.full(differs.shape, np.nan), np.zeros_like(differs)
    if candidates is not None and distances is not None:
        _validate_candidates(reference, candidates, distances)
        found, outside = _margins(reference, port, candidates, distances)
        margins[judged], bounded = found[judged], judged & outside & ~np.isnan(found)
    tie = judged & ~bounded & (margins <= tie_margin)
    grid = np.select([tie, judged, cascade], [TIE, ROOT, CASCADE], MATCH).astype(np.int8)
    return CodeComparison(grid, margins, bounded)


def _validate_candidates(codes: NDArray[Any], candidates: NDArray[Any], distances: NDArray[Any]) -> None:
    for name, array in (("candidates", candidates), ("distances", distances)):
        if array.ndim != 3 or array.shape[:2] != codes.shape or array.shape[2] == 0:
            raise NotComparable(f"shape: {name} of {list(array.shape)} for codes of {list(codes.shape)}")
    if candidates.shape != distances.shape:
        raise NotComparable(f"shape: {candidates.shape[2]} candidates with {distances.shape[2]} distances")


def _margins(
    reference: NDArray[Any], port: NDArray[Any], candidates: NDArray[Any], distances: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Relative margins [K, T], and where they are lower bounds; NaN where the reference's entry is no candidate."""
    chosen, taken = (_distance_of(side, candidates, distances) for side in (reference, port))
    outside = np.isnan(taken)
    reached = np.where(outside, distances[..., -1].astype(np.float64), taken)
    with np.errstate(divide="ignore", invalid="ignore"):
        margins = np.abs(reached - chosen) / chosen
    # Two entries that both lie on the residual are equally near.
    return np.where((reached == 0) & (chosen == 0), 0.0, margins), outside


def _distance_of(codes: NDArray[Any], candidates: NDArray[Any], distances: NDArray[Any]) -> NDArray[np.float64]:
    """The distance of each code [K, T], NaN where it is not among the candidates."""
    hits = candidates == codes[..., None]
    at = hits.argmax(axis=2)[..., None]
    found = np.take_along_axis(distances, at, axis=2)[..., 0].astype(np.float64)
    return np.where(hits.any(axis=2), found, np.nan)


def late_frames(reference: NDArray[Any], port: NDArray[Any]) -> int:
    """Frames by which the port is late (negative: early), −4..4; 0 unless another shift explains its codes.

    A shift does when at least half of the codes match in the overlap, which is at least half of the frames, and by 0.25
    more than unshifted: over all frames, and over the overlap's frames of either side. With the latter, a side that is
    constant (silence) matches as well unshifted, and never looks shifted.
    """
    validate(reference, port)
    frames = reference.shape[1]
    best, best_rate = 0, 0.0
    for late in sorted(range(-LONGEST_SHIFT_FRAMES, LONGEST_SHIFT_FRAMES + 1), key=abs):
        if late == 0 or 2 * (frames - abs(late)) < frames or frames <= abs(late):
            continue
        there = slice(max(0, -late), frames + min(0, -late))  # frames of the reference
        here = slice(max(0, late), frames + min(0, late))  # frames of the port
        rate = float(np.mean(reference[:, there] == port[:, here]))
        unshifted = max(float(np.mean(reference[:, part] == port[:, part])) for part in (slice(None), there, here))
        if _explains(rate, unshifted) and rate > best_rate:
            best, best_rate = late, rate
    return best


def moved_codebooks(reference: NDArray[Any], port: NDArray[Any]) -> dict[int, int]:
    """Codebooks of the port that are another one of the reference: codebook of the port → that of the reference.

    It is another one when at least half of the codes match there, and by 0.25 more than with its own. Frames at which a
    codebook of the port has its most frequent entry are left out, so that the entries of silence, which may be equal in
    several codebooks, are no evidence; fewer than 8 frames left are none either.
    """
    validate(reference, port)
    moved = {}
    for codebook, row in enumerate(port):
        entries, counts = np.unique(row, return_counts=True)
        telling = row != entries[counts.argmax()]
        if np.count_nonzero(telling) < LEAST_FRAMES:
            continue
        rates = np.mean(reference[:, telling] == row[telling], axis=1)
        other = int(rates.argmax())
        if _explains(float(rates[other]), float(rates[codebook])):
            moved[codebook] = other
    return moved


def _explains(rate: float, rate_in_place: float) -> bool:
    return rate >= EXPLAINED_RATE and rate > rate_in_place + CLEARLY_BETTER
