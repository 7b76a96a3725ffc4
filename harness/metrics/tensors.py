"""How far one array is from another: the project's only comparison verb.

Conventions
-----------
Shape is compared first, then dtype, then values; nothing is broadcast, cast, trimmed or reshaped to make two arrays
fit. Every error is relative to the reference, never to the port. Differences and sums are taken in float64, over
blocks of at most `BLOCK_ELEMENTS` elements, in one pass. Squares of float64 values beyond about 1e±150 leave the
range of float64: `rms`, `nmse` and `cosine` are then infinite, NaN or those of zeros, while `max_abs`, `max_rel` and
`max_ulp` stay right. A pass is `value <= limit`, so an error that is NaN or infinite never passes.

Metrics
-------
max_abs        largest |port − reference|
max_rel        largest |port − reference| / |reference|
rms            root of the mean squared difference
nmse           squared difference / squared reference
cosine         similarity of direction, 1 when equal; the only one here of which more is better
max_ulp        largest distance in representable numbers of the dtype
share_outside  share of elements with a difference above atol + rtol·|reference|
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_ELEMENTS = 1_000_000
# float16, 32 and 64 have an integer of the same width whose order gives the distance in representable numbers.
FLOAT_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


class NotComparable(Exception):
    """Two arrays differ in shape or dtype, or are of a kind that has no distance; the message says what differed."""


@dataclass(frozen=True)
class TensorError:
    """What `compare_tensors` measured. All floats are float64, in the unit of the arrays unless said otherwise.

    max_abs, rms: NaN when either side has a NaN anywhere; infinite when an infinity stands where the other side has
    not the same one. max_rel: 0 where both are 0, infinite where only the reference is. nmse: infinite when the
    reference is all zeros and the port is not. cosine: 1 when both are all zeros, 0 when one of them is. max_ulp: in
    representable numbers (+0 and −0 are one number); for integers the plain difference; −1 when it is undefined
    because of a NaN. share_outside: 0..1, None when no tolerances were given. worst_index: of the first NaN, else of
    the first largest difference; `()` when there is no element. nan_count, inf_count: elements at which either side
    is NaN, or infinite. size: elements compared; **0 means that nothing was compared**, and what that is worth is the
    caller's to decide. bit_exact: every byte equal and no NaN.
    """

    max_abs: float
    max_rel: float
    rms: float
    nmse: float
    cosine: float
    max_ulp: int
    share_outside: float | None
    worst_index: tuple[int, ...]
    reference_at_worst: float
    port_at_worst: float
    nan_count: int
    inf_count: int
    size: int
    bit_exact: bool


def validate(reference: NDArray[Any], port: NDArray[Any]) -> None:
    """Raise NotComparable unless both arrays have one shape and one real dtype, in that order."""
    if reference.shape != port.shape:
        raise NotComparable(f"shape: the port has {list(port.shape)}, the reference {list(reference.shape)}")
    if reference.dtype != port.dtype:
        raise NotComparable(f"dtype: the port has {port.dtype}, the reference {reference.dtype}")
    if reference.dtype.kind not in "fiub" or reference.dtype.itemsize not in (1, 2, 4, 8):
        raise NotComparable(f"dtype: {reference.dtype} has no distance here; float16, 32, 64, integers and bool have")


def compare_tensors(
    reference: NDArray[Any], port: NDArray[Any], *, atol: float | None = None, rtol: float | None = None
) -> TensorError:
    """Measure how far `port` is from `reference`.

    reference, port: any equal shape, any equal real dtype. atol, rtol: both or neither; an element is outside when its
    difference is not within atol + rtol·|reference|. Infinities of one sign at one place are equal; NaN equals nothing.
    Two empty arrays of one shape give size 0, errors 0 and bit_exact true.

    Raises NotComparable when shape or dtype differ, ValueError when only one tolerance is given or one is negative.
    """
    if (atol is None) != (rtol is None):
        raise ValueError(f"atol is {atol}, rtol is {rtol}: state both tolerances or neither")
    tolerances = None if atol is None or rtol is None else (atol, rtol)
    if tolerances and not (tolerances[0] >= 0 and tolerances[1] >= 0):
        raise ValueError(f"atol is {atol}, rtol is {rtol}: a tolerance is 0 or more")
    reference, port = np.asarray(reference), np.asarray(port)
    validate(reference, port)
    sums = _Sums(tolerances)
    for start in range(0, reference.size, BLOCK_ELEMENTS):
        stop = min(start + BLOCK_ELEMENTS, reference.size)
        sums.add(start, _block(reference, start, stop), _block(port, start, stop))
    return sums.result(reference, port)


def _block(array: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
    """Elements start..stop in C order, in native byte order, without copying the whole array."""
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    block = np.asarray(flat[start:stop])
    return np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("="))


class _Sums:
    """What is carried from block to block."""

    def __init__(self, tolerances: tuple[float, float] | None) -> None:
        self.tolerances = tolerances
        self.max_abs = self.max_rel = 0.0
        self.max_ulp = self.outside = self.nan_count = self.inf_count = self.size = self.worst = 0
        self.difference_energy = self.reference_energy = self.port_energy = self.product = 0.0
        self.bit_exact = True

    def add(self, start: int, reference: NDArray[Any], port: NDArray[Any]) -> None:
        left = reference.astype(np.float64)
        if reference.tobytes() == port.tobytes() and np.isfinite(left).all():
            # The commonest case by far: nothing differs, only the energies count; they may leave float64.
            with np.errstate(over="ignore"):
                energy = float(left @ left)
            self.reference_energy += energy
            self.port_energy += energy
            self.product += energy
            self.size += len(left)
            return
        right = port.astype(np.float64)
        ulps = _distance(_ordered(reference), _ordered(port))
        is_nan = np.isnan(left) | np.isnan(right)
        # Infinity less itself, and tiny numbers divided or squared, are expected here and have a defined answer.
        with np.errstate(all="ignore"):
            # Integers above 2**53 are rounded by float64: their distance is taken before the conversion.
            size = np.abs(right - left) if reference.dtype.kind == "f" else ulps.astype(np.float64)
            size = np.where(left == right, np.where(ulps > 0, size, 0.0), size)
            relative = np.where(size == 0, 0.0, size / np.abs(left))
            relative = np.where(np.isnan(relative) & ~is_nan, np.inf, relative)
            self.difference_energy += float(size @ size)
            self.reference_energy += float(left @ left)
            self.port_energy += float(right @ right)
            self.product += float(left @ right)
            if self.tolerances:
                atol, rtol = self.tolerances
                # A tolerance that is infinite, for an infinite or a huge reference, allows nothing but equality.
                inside = (size == 0) | (np.isfinite(size) & (size <= atol + rtol * np.abs(left)))
                self.outside += len(size) - int(np.count_nonzero(inside))
        self._keep_worst(start, size)
        # np.maximum hands NaN on, which Python's max does not do reliably.
        self.max_rel = float(np.maximum(self.max_rel, relative.max()))
        self.max_ulp = max(self.max_ulp, int(ulps.max()))
        self.nan_count += int(np.count_nonzero(is_nan))
        self.inf_count += int(np.count_nonzero(np.isinf(left) | np.isinf(right)))
        self.bit_exact = self.bit_exact and reference.tobytes() == port.tobytes() and not is_nan.any()
        self.size += len(left)

    def _keep_worst(self, start: int, size: NDArray[np.float64]) -> None:
        """`argmax` gives the first NaN when there is one; an earlier NaN or an earlier equal is kept."""
        at = int(size.argmax())
        if not math.isnan(self.max_abs) and not size[at] <= self.max_abs:
            self.worst, self.max_abs = start + at, float(size[at])

    def result(self, reference: NDArray[Any], port: NDArray[Any]) -> TensorError:
        index = tuple(int(i) for i in np.unravel_index(self.worst, reference.shape)) if self.size else ()
        return TensorError(
            max_abs=self.max_abs,
            max_rel=self.max_rel,
            rms=math.sqrt(self.difference_energy / self.size) if self.size else 0.0,
            nmse=_quotient(self.difference_energy, self.reference_energy),
            cosine=self._cosine(),
            max_ulp=-1 if self.nan_count else self.max_ulp,
            share_outside=self.outside / max(self.size, 1) if self.tolerances else None,
            worst_index=index,
            reference_at_worst=float(reference[index]) if self.size else math.nan,
            port_at_worst=float(port[index]) if self.size else math.nan,
            nan_count=self.nan_count,
            inf_count=self.inf_count,
            size=self.size,
            bit_exact=bool(self.bit_exact),
        )

    def _cosine(self) -> float:
        if self.reference_energy == 0 or self.port_energy == 0:
            return float(self.reference_energy == self.port_energy)
        # Two roots, not the root of the product: the product of two energies leaves float64 sooner.
        norms = math.sqrt(self.reference_energy) * math.sqrt(self.port_energy)
        if not math.isfinite(norms):
            return math.nan
        return float(np.clip(self.product / norms, -1.0, 1.0))


def _quotient(part: float, whole: float) -> float:
    """part / whole, where nothing of nothing is 0 and something of nothing is infinite."""
    if whole == 0:
        return 0.0 if part == 0 else part * math.inf
    return part / whole


def _ordered(values: NDArray[Any]) -> NDArray[np.uint64]:
    """An unsigned number for each value, in the order of the values and one apart for neighbours."""
    middle = np.uint64(1 << 63)
    if values.dtype.kind in "ub":
        return values.astype(np.uint64)
    if values.dtype.kind == "i":
        return values.astype(np.int64).view(np.uint64) ^ middle
    bits = values.view(FLOAT_BITS[values.dtype.itemsize]).astype(np.uint64)
    sign = np.uint64(1 << (8 * values.dtype.itemsize - 1))
    magnitude = bits & (sign - np.uint64(1))
    return np.where(bits & sign, middle - magnitude, middle + magnitude)


def _distance(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return np.maximum(left, right) - np.minimum(left, right)
