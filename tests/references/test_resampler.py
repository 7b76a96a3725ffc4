"""The wrappers of the reference resamplers: what they promise about lengths, dtypes and blocks."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("librosa")
pytest.importorskip("soxr")

from references.resampler import Librosa, PythonSoxr


@functools.cache
def make(kind: type) -> Any:
    return kind()


def noise(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(0).uniform(-0.5, 0.5, shape).astype(dtype)


def test_versions_are_told() -> None:
    assert make(Librosa).version.startswith("librosa ")
    assert make(PythonSoxr).version.startswith("soxr ")


@pytest.mark.parametrize("kind", [Librosa, PythonSoxr])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0,), (1,), (147,), (2, 147), (3, 0)])
def test_shape_and_dtype(kind: type, dtype: Any, shape: tuple[int, ...]) -> None:
    samples = noise(*shape, dtype=dtype)
    resampled = make(kind).resample(samples, 44100, 24000)
    lengths = {0: 0, 1: 1, 147: 81}
    assert resampled.shape == (*shape[:-1], lengths[shape[-1]])
    assert resampled.dtype == dtype


@pytest.mark.parametrize("kind", [Librosa, PythonSoxr])
def test_equal_rates_return_the_input(kind: type) -> None:
    samples = noise(2, 500)
    assert np.array_equal(make(kind).resample(samples, 16000, 16000), samples)


def test_librosa_offers_no_stream() -> None:
    assert not hasattr(make(Librosa), "stream")


@pytest.mark.parametrize(("rate_hz", "target_hz"), [(16000, 24000), (44100, 24000), (24000, 16000), (48000, 16000)])
@pytest.mark.parametrize("shape", [(9973,), (2, 1001)])
def test_the_two_agree(rate_hz: int, target_hz: int, shape: tuple[int, ...]) -> None:
    samples = noise(*shape)
    expected = make(Librosa).resample(samples, rate_hz, target_hz)
    obtained = make(PythonSoxr).resample(samples, rate_hz, target_hz)
    assert obtained.shape == expected.shape
    assert np.max(np.abs(obtained - expected)) <= 1e-6


def test_the_fit_is_the_wrappers() -> None:
    import soxr

    samples = noise(1001)
    assert soxr.resample(samples, 24000, 16000, quality="HQ").shape == (667,)
    fitted = make(PythonSoxr).resample(samples, 24000, 16000)
    assert fitted.shape == (668,)
    assert fitted[-1] == 0


@pytest.mark.parametrize("size", [1, 101, 1021, 5000])
@pytest.mark.parametrize("shape", [(3001,), (2, 3001)])
def test_stream_equals_whole(size: int, shape: tuple[int, ...]) -> None:
    samples = noise(*shape)
    blocks = [samples[..., start : start + size] for start in range(0, shape[-1], size)]
    streamed = make(PythonSoxr).stream(blocks, 44100, 24000)
    assert np.array_equal(streamed, make(PythonSoxr).resample(samples, 44100, 24000))


def test_stream_of_nothing_and_of_equal_rates() -> None:
    samples = noise(300)
    assert make(PythonSoxr).stream([samples[:0]], 16000, 24000).shape == (0,)
    assert np.array_equal(make(PythonSoxr).stream([samples[:100], samples[100:]], 16000, 16000), samples)
