"""The comparison verb on cases worked out by hand."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from harness.metrics import tensors
from harness.metrics.tensors import NotComparable, TensorError, compare_tensors


def test_every_field_on_a_case_worked_out_by_hand():
    # Differences 0, 1, 0, −2: energy 5; the reference's energy 1 + 4 + 16 + 64 = 85, the port's 1 + 9 + 16 + 36 = 62.
    reference = np.array([[1.0, 2.0], [4.0, 8.0]], dtype=np.float32)
    port = np.array([[1.0, 3.0], [4.0, 6.0]], dtype=np.float32)
    error = compare_tensors(reference, port, atol=0.0, rtol=0.3)
    assert error.max_abs == 2.0
    assert error.max_rel == 0.5
    assert error.rms == math.sqrt(5 / 4)
    assert error.nmse == 5 / 85
    assert error.cosine == pytest.approx((1 + 6 + 16 + 48) / math.sqrt(85 * 62), rel=1e-15)
    assert error.max_ulp == 2**22  # 2 to 3 is half a binade of 2**23 numbers, and so is 6 to 8
    assert error.share_outside == 0.25  # 1 > 0.3·2, but 2 <= 0.3·8
    assert (error.worst_index, error.reference_at_worst, error.port_at_worst) == ((1, 1), 8.0, 6.0)
    assert (error.nan_count, error.inf_count, error.size, error.bit_exact) == (0, 0, 4, False)


def test_it_agrees_with_numpy_and_scipy_on_noise():
    from scipy.spatial.distance import cosine

    random = np.random.default_rng(5)
    reference = random.normal(size=(3, 1000)).astype(np.float32)
    port = reference + random.normal(scale=1e-3, size=reference.shape).astype(np.float32)
    error = compare_tensors(reference, port)
    left, right = reference.astype(np.float64), port.astype(np.float64)
    assert error.max_abs == np.abs(right - left).max()
    assert error.max_rel == (np.abs(right - left) / np.abs(left)).max()
    assert error.rms == pytest.approx(np.linalg.norm(right - left) / math.sqrt(left.size), rel=1e-12)
    assert error.nmse == pytest.approx(np.linalg.norm(right - left) ** 2 / np.linalg.norm(left) ** 2, rel=1e-12)
    assert error.cosine == pytest.approx(1 - cosine(left.ravel(), right.ravel()), rel=1e-12)
    assert error.worst_index == np.unravel_index(np.abs(right - left).argmax(), left.shape)


@pytest.mark.parametrize(
    ("reference", "port", "ulps"),
    [
        (np.float16(1.0), np.float16(1.0009765625), 1),
        (np.float32(-0.0), np.float32(0.0), 0),
        (np.float32(-1e-45), np.float32(1e-45), 2),
        (np.float32(1.0), np.float32(2.0), 2**23),
        (np.float64(1.0), np.float64(-1.0), 2 * 0x3FF0000000000000),
        (np.float64(1.0), np.float64(1.0) + 2**-52, 1),
        (np.int8(-128), np.int8(127), 255),
        (np.int64(-(2**63)), np.int64(2**63 - 1), 2**64 - 1),
        (np.uint64(0), np.uint64(2**64 - 1), 2**64 - 1),
        (np.bool_(False), np.bool_(True), 1),
    ],
)
def test_distance_in_representable_numbers(reference, port, ulps):
    assert compare_tensors(np.array([reference]), np.array([port])).max_ulp == ulps


def test_integers_that_float64_cannot_tell_apart_differ():
    error = compare_tensors(np.array([2**60]), np.array([2**60 + 1]))
    assert error.max_abs == 1.0
    assert error.rms == 1.0


def test_zeros_of_either_sign_are_equal_but_not_bit_exact():
    error = compare_tensors(np.array([0.0]), np.array([-0.0]))
    assert error.max_abs == 0
    assert not error.bit_exact


@pytest.mark.parametrize(
    ("reference", "port", "found"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2)), r"shape: the port has \[3, 2\], the reference \[2, 3\]"),
        (np.zeros(3), np.zeros((3, 1)), "shape"),
        (np.zeros(1), np.zeros(3), "shape"),
        (np.zeros(0), np.zeros(1), "shape"),
        (np.zeros((0, 2)), np.zeros((0, 3)), "shape"),
        (np.zeros(2, np.float32), np.zeros(3, np.float64), "shape"),  # shape is told first
        (np.zeros(2, np.float32), np.zeros(2, np.float64), "dtype: the port has float64, the reference float32"),
        (np.zeros(2, np.int32), np.zeros(2, np.uint32), "dtype"),
        (np.zeros(2, np.complex64), np.zeros(2, np.complex64), "complex64 has no distance"),
        (np.array(["a"]), np.array(["a"]), "no distance"),
    ],
)
def test_what_cannot_be_compared_is_said_not_coerced(reference, port, found):
    with pytest.raises(NotComparable, match=found):
        compare_tensors(reference, port)


@pytest.mark.parametrize("tolerances", [{"atol": 1.0}, {"rtol": 1.0}, {"atol": -1.0, "rtol": 0.0}])
def test_both_tolerances_or_neither_and_none_below_zero(tolerances):
    with pytest.raises(ValueError, match="tolerance"):
        compare_tensors(np.zeros(1), np.zeros(1), **tolerances)


def test_without_tolerances_nothing_is_said_about_them():
    assert compare_tensors(np.zeros(1), np.ones(1)).share_outside is None


def test_the_reference_is_the_denominator():
    assert compare_tensors(np.array([2.0]), np.array([1.0])).max_rel == 0.5
    assert compare_tensors(np.array([1.0]), np.array([2.0])).max_rel == 1.0
    assert compare_tensors(np.array([1.0]), np.array([2.0]), atol=0.0, rtol=0.6).share_outside == 1.0
    assert compare_tensors(np.array([2.0]), np.array([1.0]), atol=0.0, rtol=0.6).share_outside == 0.0


def test_against_zeros_the_relative_errors_are_infinite():
    error = compare_tensors(np.zeros(2), np.array([0.0, 1e-9]))
    assert (error.max_rel, error.nmse, error.cosine) == (math.inf, math.inf, 0.0)
    assert error.max_abs == 1e-9


@pytest.mark.parametrize(
    ("reference", "port", "max_abs"),
    [
        (math.inf, math.inf, 0.0),
        (-math.inf, -math.inf, 0.0),
        (math.inf, -math.inf, math.inf),
        (1.0, math.inf, math.inf),
        (math.inf, 1.0, math.inf),
    ],
)
def test_infinities(reference, port, max_abs):
    error = compare_tensors(np.array([1.0, reference]), np.array([1.0, port]))
    assert error.max_abs == max_abs
    assert error.max_rel == max_abs
    assert error.inf_count == 1
    for tolerance in (0.0, 1.0):
        strict = compare_tensors(np.array([1.0, reference]), np.array([1.0, port]), atol=tolerance, rtol=tolerance)
        assert strict.share_outside == (0.5 if max_abs else 0.0)


@pytest.mark.parametrize("sides", [(math.nan, 0.0), (0.0, math.nan), (math.nan, math.nan), (math.nan, math.inf)])
def test_nan_equals_nothing_not_even_itself(sides):
    error = compare_tensors(np.array([0.0, 9.0, sides[0]]), np.array([0.0, 1.0, sides[1]]), atol=10.0, rtol=0.0)
    assert math.isnan(error.max_abs)
    assert math.isnan(error.max_rel)
    assert math.isnan(error.rms)
    assert error.worst_index == (2,)
    assert error.share_outside == pytest.approx(1 / 3)
    assert (error.nan_count, error.max_ulp, error.bit_exact) == (1, -1, False)


def test_the_first_nan_is_named_even_when_an_infinity_or_a_later_block_follows(monkeypatch):
    monkeypatch.setattr(tensors, "BLOCK_ELEMENTS", 2)
    port = np.array([1.0, np.inf, np.nan, 0.0, np.inf, np.nan])
    error = compare_tensors(np.zeros(6), port)
    assert math.isnan(error.max_abs)
    assert math.isnan(error.max_rel)
    assert error.worst_index == (2,)
    assert (error.nan_count, error.inf_count) == (2, 2)


def test_of_equal_errors_the_first_is_named(monkeypatch):
    monkeypatch.setattr(tensors, "BLOCK_ELEMENTS", 2)
    assert compare_tensors(np.zeros(6), np.array([0.0, 1.0, 1.0, 0.0, 1.0, 1.0])).worst_index == (1,)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5)])
def test_two_empty_arrays_say_that_nothing_was_compared(shape):
    error = compare_tensors(np.zeros(shape, np.float32), np.zeros(shape, np.float32), atol=0.0, rtol=0.0)
    assert error.size == 0
    assert (error.max_abs, error.bit_exact, error.worst_index, error.share_outside) == (0.0, True, (), 0.0)
    assert math.isnan(error.reference_at_worst)


def test_a_single_number_has_no_index():
    error = compare_tensors(np.array(1.0), np.array(3.0))
    assert (error.max_abs, error.worst_index, error.port_at_worst) == (2.0, (), 3.0)


def test_memory_stays_bounded(monkeypatch):
    monkeypatch.setattr(tensors, "BLOCK_ELEMENTS", 10_000)
    reference = np.zeros((1000, 1000), dtype=np.float32)[:, ::2]  # not contiguous: a flat copy would take 2 MB
    port = np.ones((1000, 500), dtype=np.float32)
    tracemalloc.start()
    error = compare_tensors(reference, port)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert error.size == 500_000
    assert peak < 1_500_000  # about a dozen float64 arrays of a block of 10,000


def test_the_result_cannot_be_edited():
    error: TensorError = compare_tensors(np.zeros(1), np.ones(1))
    with pytest.raises(AttributeError):
        error.max_abs = 0.0
