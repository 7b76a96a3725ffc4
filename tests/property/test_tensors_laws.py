"""Laws of the comparison verb."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.metrics import tensors
from harness.metrics.tensors import compare_tensors
from tests.strategies import float_arrays, integer_arrays


@given(st.one_of(float_arrays(), integer_arrays()))
def test_an_array_is_no_distance_from_itself(array):
    error = compare_tensors(array, array.copy(), atol=0.0, rtol=0.0)
    assert (error.max_abs, error.max_rel, error.rms, error.nmse, error.max_ulp) == (0, 0, 0, 0, 0)
    assert error.share_outside == 0
    assert error.bit_exact
    assert error.size == array.size


@given(st.one_of(float_arrays(), integer_arrays()), st.data())
def test_one_element_beyond_the_limit_is_always_seen(array, data):
    index = tuple(data.draw(st.integers(0, side - 1)) for side in array.shape)
    limit = data.draw(st.floats(0, 1e4))
    port = array.copy()
    if array.dtype.kind == "f":
        port[index] = np.float64(array[index]) + 2 * limit + 1
    else:
        port[index] = array[index] ^ array.dtype.type(1)
        limit = 0.5
    assume(np.isfinite(port[index]))
    assume(abs(float(port[index]) - float(array[index])) > limit or array.dtype.kind != "f")
    error = compare_tensors(array, port, atol=limit, rtol=0.0)
    assert not error.max_abs <= limit
    assert error.share_outside == 1 / array.size
    assert error.worst_index == index
    assert not error.bit_exact


@given(float_arrays(), st.data())
def test_the_next_representable_number_is_one_apart(array, data):
    index = tuple(data.draw(st.integers(0, side - 1)) for side in array.shape)
    port = array.copy()
    with np.errstate(over="ignore", under="ignore"):
        port[index] = np.nextafter(array[index], array.dtype.type(np.inf))
    assume(np.isfinite(port[index]))
    error = compare_tensors(array, port)
    assert error.max_ulp == 1
    assert error.max_abs > 0


@given(float_arrays(), st.data(), st.sampled_from([np.nan, np.inf, -np.inf]), st.booleans())
def test_nan_and_infinity_never_pass(array, data, value, in_reference):
    index = tuple(data.draw(st.integers(0, side - 1)) for side in array.shape)
    other = array.copy()
    other[index] = value
    sides = (other, array) if in_reference else (array, other)
    error = compare_tensors(*sides, atol=1e300, rtol=1.0)
    for measured in (error.max_abs, error.max_rel, error.rms):
        assert not measured <= 1e308
    assert not error.bit_exact
    assert error.worst_index == index
    assert error.share_outside == 1 / array.size
    assert error.nan_count + error.inf_count == 1


@given(float_arrays(shape=(7,)), st.data())
def test_distance_is_symmetric_and_rms_never_above_the_maximum(array, data):
    port = data.draw(float_arrays(shape=(7,), dtype=array.dtype.type))
    there, back = compare_tensors(array, port), compare_tensors(port, array)
    assert there.max_abs == back.max_abs
    assert there.max_ulp == back.max_ulp
    assert there.rms == back.rms
    assume(math.isfinite(there.rms))
    assert there.rms <= there.max_abs * (1 + 1e-12)


@given(float_arrays(), st.data())
def test_the_size_of_the_blocks_does_not_matter(array, data):
    port = data.draw(float_arrays(shape=array.shape, dtype=array.dtype.type))
    whole = compare_tensors(array, port, atol=0.1, rtol=0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensors, "BLOCK_ELEMENTS", 3)
        blocks = compare_tensors(array, port, atol=0.1, rtol=0.1)
    sums = {"rms", "nmse", "cosine"}  # float64 addition in another order
    for field in dataclasses.fields(whole):
        left, right = getattr(whole, field.name), getattr(blocks, field.name)
        if field.name in sums:
            assert math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-12) or (math.isnan(left) and math.isnan(right))
        else:
            assert left == right, field.name


@given(float_arrays(shape=(4, 5), dtype=np.float32), st.data())
def test_memory_order_and_byte_order_do_not_matter(array, data):
    port = data.draw(float_arrays(shape=(4, 5), dtype=np.float32))
    plain = compare_tensors(array, port)
    strided = compare_tensors(np.asfortranarray(array), np.repeat(port, 2, axis=1)[:, ::2])
    swapped = compare_tensors(array.astype(">f4"), port.astype(">f4"))
    assert plain == strided == swapped
