"""What explains a port's error: a declared fault that makes the same one, or a simple change of the reference's output.

Conventions: `explained` = 1 − ‖port − guess‖² / ‖port − reference‖², summed over the outputs, each relative to the
reference's energy, held within 0..1; for a simple change ‖port‖² stands in the denominator when it is the smaller. A
tensor that one side lacks, or that has another shape or dtype, counts as an error of 1 unless both sides compared lack
it, or are alike in shape and dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.family import Family, Fault, Implementation
from harness.metrics.tensors import NotComparable, compare_tensors
from harness.observations import TAP_PREFIX, Observation

CONVINCING = 0.9
LONGEST_LAG = 64
MOST_CHANNELS = 64
Tensors = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Explanation:
    """fault: a declared fault, or a simple change in words. explained: the share of the port's error, 0..1."""

    fault: str
    explained: float
    declared: bool
    description: str = ""


def explaining_faults(family: Family, port: Implementation) -> list[Fault]:
    """The faults to try: the port's own, and for another engine those of the family's port that declares the most.

    Both run on the same variant of the reference, else their outputs say nothing of each other.
    """
    candidates = [item for item in family.ports if item.variant == port.variant]
    counts = {item.name: sum(fault.implementation == item.name for fault in family.faults) for item in candidates}
    main = max(counts, key=lambda name: counts[name], default=port.name)
    return [fault for fault in family.faults if fault.implementation in (port.name, main)]


def explain(
    reference: Observation,
    port: Observation,
    faulted: Mapping[str, Observation | None],
    described: Mapping[str, str],
) -> list[Explanation]:
    """Faults and simple changes, the best first.

    faulted: what a port with each fault planted gives, None for nothing. described: each fault in words.
    """
    expected, obtained = _compared(reference, port), _compared(port, port)
    names = [*expected, *(name for name in obtained if name not in expected)]
    whole = _energy(expected, obtained, expected, names)
    tried = [
        Explanation(
            name, _share(_energy(_compared(item, port), obtained, expected, names), whole), True, described[name]
        )
        for name, item in faulted.items()
        if item
    ]
    # A small gain comes near any output that has collapsed: a simple change must explain what is there, too, not only
    # what is missing.
    nothing = {name: np.zeros_like(item) for name, item in obtained.items()}
    least = min(whole, _energy(nothing, obtained, expected, names))
    for name, guess in _simple_changes(expected, obtained):
        tried.append(Explanation(name, _share(_energy(guess, obtained, expected, names), least), False))
    return sorted(tried, key=lambda item: -item.explained)  # a declared fault before a simple change that is as good


def is_convincing(explanations: Sequence[Explanation]) -> bool:
    """Whether the best of them explains enough."""
    return bool(explanations) and explanations[0].explained >= CONVINCING


def _compared(observation: Observation, port: Observation) -> dict[str, NDArray[Any]]:
    """The outputs, and the taps when the port offers any: of those only the presence counts."""
    outputs = {name: item for name, item in observation.tensors.items() if not name.startswith(TAP_PREFIX)}
    if not port.taps:
        return outputs
    return {**outputs, **{TAP_PREFIX + tap: np.zeros(1, np.float32) for tap in observation.taps}}


def _energy(guess: Tensors, obtained: Tensors, expected: Tensors, names: Sequence[str]) -> float:
    """‖obtained − guess‖², each tensor relative to the reference's energy."""
    return sum(_difference(guess.get(name), obtained.get(name), expected.get(name)) for name in names)


def _difference(guess: NDArray[Any] | None, obtained: NDArray[Any] | None, expected: NDArray[Any] | None) -> float:
    if guess is None or obtained is None:
        return float((guess is None) != (obtained is None))
    try:
        error = compare_tensors(guess, obtained)
    except NotComparable:
        return 1.0
    if error.size == 0 or error.max_abs == 0:
        return 0.0
    scale = np.asarray(obtained if expected is None else expected, np.float64)
    energy = float(np.vdot(scale, scale)) or float(np.vdot(obtained.astype(np.float64), obtained.astype(np.float64)))
    return error.rms**2 * error.size / energy if energy else math.inf


def _share(left: float, whole: float) -> float:
    share = 1 - left / whole if whole > 0 else 0.0
    return min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0


def _simple_changes(expected: Tensors, obtained: Tensors) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
    """Changes of the reference's outputs that need no fault planted, each fitted to the port where it has a number."""
    shared = [
        name
        for name, item in expected.items()
        if not name.startswith(TAP_PREFIX)
        and name in obtained
        and item.shape == obtained[name].shape
        and item.dtype == obtained[name].dtype
        and item.dtype.kind == "f"
        and item.size
    ]
    if not shared:
        return

    def changed(change: Callable[[NDArray[Any]], NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {**expected, **{name: change(expected[name]).astype(expected[name].dtype) for name in shared}}

    yield "sign reversed", changed(np.negative)
    lag = _fitted_lag(expected[shared[0]], obtained[shared[0]])
    if lag:
        yield f"late by {lag} elements", changed(lambda item: _shifted(item, lag))
    order = _fitted_order(expected[shared[0]], obtained[shared[0]])
    if all(expected[name].ndim > 1 and len(expected[name]) == len(order) for name in shared):
        yield f"channels in the order {', '.join(map(str, order))}", changed(lambda item: item[order])
    yield "rounded to float16", changed(lambda item: item.astype(np.float16))
    yield "rounded to bfloat16", changed(_bfloat16)
    yield "rounded to 16-bit integers", changed(lambda item: np.rint(item * 32768) / 32768)
    # Last: a gain of −1 says less than a reversed sign does.
    gain = _fitted_gain(expected, obtained, shared)
    yield f"gain of {gain:.6g}", changed(lambda item: item * gain)


def _fitted_gain(expected: Tensors, obtained: Tensors, names: Sequence[str]) -> float:
    """The least-squares gain over all outputs."""
    pairs = [(expected[name].astype(np.float64).ravel(), obtained[name].astype(np.float64).ravel()) for name in names]
    energy = sum(float(left @ left) for left, _ in pairs)
    gain = sum(float(left @ right) for left, right in pairs) / energy if energy else 1.0
    return gain if math.isfinite(gain) else 1.0


def _fitted_lag(expected: NDArray[Any], obtained: NDArray[Any]) -> int:
    """How many elements along the last axis the port is late (or, negative, early) by, at most `LONGEST_LAG`."""
    longest = min(LONGEST_LAG, expected.shape[-1] - 1)
    target = obtained.astype(np.float64)
    errors = {
        lag: float(np.sum((_shifted(expected, lag) - target) ** 2))
        for lag in sorted(range(-longest, longest + 1), key=abs)
    }
    return min(errors, key=lambda lag: errors[lag], default=0)


def _fitted_order(expected: NDArray[Any], obtained: NDArray[Any]) -> list[int]:
    """Which channel of the reference each of the port's is nearest to, each used once; empty when they are in order."""
    from scipy.optimize import linear_sum_assignment

    if expected.ndim < 2 or not 1 < len(expected) <= MOST_CHANNELS or not np.isfinite(obtained).all():
        return []
    left, right = (item.astype(np.float64).reshape(len(item), -1) for item in (expected, obtained))
    distances = np.array([[float(np.sum((channel - other) ** 2)) for other in left] for channel in right])  # [C, C]
    if not np.isfinite(distances).all():
        return []
    order = [int(index) for index in linear_sum_assignment(distances)[1]]
    return order if order != sorted(order) else []


def _shifted(item: NDArray[Any], lag: int) -> NDArray[Any]:
    """Moved along the last axis, zeros where nothing is known."""
    moved = np.zeros_like(item)
    if lag > 0:
        moved[..., lag:] = item[..., :-lag]
    elif lag < 0:
        moved[..., :lag] = item[..., -lag:]
    else:
        moved[...] = item
    return moved


def _bfloat16(item: NDArray[Any]) -> NDArray[Any]:
    """Rounded to the nearest number of eight bits of mantissa, ties to even."""
    bits = item.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32)
