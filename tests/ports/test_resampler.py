"""The libsoxr port against librosa: bits, lengths, blocks, and when the library is loaded."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

import ports.resampler as port
from harness.errors import Unavailable
from ports.resampler import Libsoxr, output_length

RATES_HZ = (8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000)
TARGET_RATES_HZ = (16000, 24000)

try:
    Libsoxr().check()
except Unavailable as missing:
    pytestmark = pytest.mark.skip(reason=str(missing))


@functools.cache
def librosa_reference() -> Any:
    pytest.importorskip("librosa")
    from references.resampler import Librosa

    return Librosa()


def noise(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.5, 0.5, shape).astype(dtype)


def assert_within_limit(obtained: np.ndarray, expected: np.ndarray) -> None:
    """Shape and dtype equal; values bit for bit on x86-64, elsewhere within the gate's 1e-6."""
    assert obtained.shape == expected.shape
    assert obtained.dtype == expected.dtype
    limit = 0 if sys.platform == "linux" and "x86_64" in _machine() else 1e-6
    assert expected.size == 0 or np.max(np.abs(obtained - expected)) <= limit


def _machine() -> str:
    import platform

    return platform.machine()


@pytest.mark.parametrize("target_hz", TARGET_RATES_HZ)
@pytest.mark.parametrize("rate_hz", RATES_HZ)
@pytest.mark.parametrize("length", [0, 1, 2, 100, 147, 9973])
def test_equals_librosa(rate_hz: int, target_hz: int, length: int) -> None:
    samples = noise(length, seed=length)
    expected = librosa_reference().resample(samples, rate_hz, target_hz)
    assert_within_limit(Libsoxr().resample(samples, rate_hz, target_hz), expected)


@pytest.mark.parametrize("shape", [(3001,), (1, 3001), (2, 3001), (5, 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_channels_and_dtypes(shape: tuple[int, ...], dtype: Any) -> None:
    samples = noise(*shape, dtype=dtype)
    expected = librosa_reference().resample(samples, 44100, 16000)
    obtained = Libsoxr().resample(samples, 44100, 16000)
    assert_within_limit(obtained, expected)
    assert obtained.flags.c_contiguous


def test_samples_that_are_not_contiguous() -> None:
    samples = noise(2, 4000)[:, ::2]
    assert_within_limit(Libsoxr().resample(samples, 24000, 16000), Libsoxr().resample(samples.copy(), 24000, 16000))


@pytest.mark.parametrize("target_hz", TARGET_RATES_HZ)
def test_real_speech(real_clips: Path, target_hz: int) -> None:
    for path in sorted(real_clips.glob("*.flac"))[:4]:
        samples, rate_hz = soundfile.read(path, dtype="float32")
        expected = librosa_reference().resample(samples, rate_hz, target_hz)
        assert_within_limit(Libsoxr().resample(samples, rate_hz, target_hz), expected)


@pytest.mark.parametrize(
    ("count", "rate_hz", "target_hz", "expected"),
    [
        (147, 44100, 24000, 81),  # exactly 80, but the float64 ratio is a little more than 80/147
        (147, 22050, 24000, 161),
        (147, 11025, 24000, 321),
        (1001, 24000, 16000, 668),  # libsoxr itself makes 667
        (0, 44100, 24000, 0),
    ],
)
def test_length_formula(count: int, rate_hz: int, target_hz: int, expected: int) -> None:
    assert output_length(count, rate_hz, target_hz) == expected
    assert Libsoxr().resample(noise(count), rate_hz, target_hz).shape == (expected,)


def test_what_libsoxr_leaves_stays_zero() -> None:
    assert Libsoxr().resample(noise(1001), 24000, 16000)[-1] == 0


@settings(max_examples=40)
@given(
    cuts=st.lists(st.integers(0, 2500), max_size=12),
    rates=st.sampled_from([(16000, 24000), (44100, 24000), (48000, 16000), (24000, 24000), (8000, 24000)]),
    channels=st.sampled_from([0, 1, 2]),
)
def test_stream_equals_whole(cuts: list[int], rates: tuple[int, int], channels: int) -> None:
    samples = noise(*[channels][:channels], 2500)
    blocks = np.split(samples, sorted(cuts), axis=-1)  # blocks of length 0 too
    streamed = Libsoxr().stream(blocks, *rates)
    assert streamed.dtype == samples.dtype
    assert np.array_equal(streamed, Libsoxr().resample(samples, *rates))


def test_stream_sample_by_sample() -> None:
    samples = noise(700)
    streamed = Libsoxr().stream(np.split(samples, 700), 22050, 16000)
    assert np.array_equal(streamed, Libsoxr().resample(samples, 22050, 16000))


def test_equal_rates_return_the_input() -> None:
    samples = noise(2, 1000)
    assert np.array_equal(Libsoxr().resample(samples, 16000, 16000), samples)


def test_oneshot_without_quality_is_another_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """soxr_oneshot takes LQ when no quality is given, where soxr_create takes HQ."""
    samples = noise(24000)
    right = Libsoxr().resample(samples, 24000, 16000)
    oneshot = np.zeros(16000, np.float32)
    made = ctypes.c_size_t()
    function = port.library().soxr_oneshot
    function.restype = ctypes.c_char_p
    error = function(
        ctypes.c_double(24000), ctypes.c_double(16000), ctypes.c_uint(1),
        ctypes.c_void_p(samples.ctypes.data), ctypes.c_size_t(24000), None,
        ctypes.c_void_p(oneshot.ctypes.data), ctypes.c_size_t(16000), ctypes.byref(made), None, None, None,
    )  # fmt: skip
    assert error is None
    assert 0.03 < np.max(np.abs(oneshot - right)) < 0.3
    monkeypatch.setattr(port, "RECIPE", 1)
    assert np.array_equal(Libsoxr().resample(samples, 24000, 16000), oneshot)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "LIBRARY", "libsoxr-that-is-not-there.so.0")
    resampler = Libsoxr()
    samples = noise(10)
    assert np.array_equal(resampler.resample(samples, 16000, 16000), samples)
    assert resampler.resample(samples[:0], 16000, 24000).shape == (0,)
    for use in (resampler.check, lambda: resampler.resample(samples, 16000, 24000), lambda: resampler.version):
        with pytest.raises(Unavailable, match="apt-get install libsoxr0"):
            use()


def test_refused_dtypes() -> None:
    for blocks in ([np.zeros(10, np.int16)], [np.zeros(10, np.float32), np.zeros(10, np.float64)]):
        with pytest.raises(ValueError, match="expected float32 or float64"):
            Libsoxr().stream(blocks, 16000, 24000)


@pytest.mark.parametrize(("rate_hz", "target_hz"), [(0, 16000), (-1, 16000)])
def test_errors_of_libsoxr_are_told(rate_hz: int, target_hz: int) -> None:
    with pytest.raises((RuntimeError, ZeroDivisionError)):
        port.create(rate_hz, target_hz, channels=1, dtype=np.dtype(np.float32))


@pytest.mark.parametrize("fails", [False, True])
def test_every_resampler_is_deleted(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    living = set()

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(loaded, name)

        def soxr_create(self, *arguments: Any) -> Any:
            living.add(handle := loaded.soxr_create(*arguments))
            return handle

        def soxr_delete(self, handle: ctypes.c_void_p) -> None:
            living.remove(handle.value)
            loaded.soxr_delete(handle)

        def soxr_process(self, *arguments: Any) -> Any:
            assert living
            return b"broken on purpose" if fails else loaded.soxr_process(*arguments)

    loaded, counting = port.library(), Counting()
    monkeypatch.setattr(port, "library", lambda: counting)
    if fails:
        with pytest.raises(RuntimeError, match="libsoxr: broken on purpose"):
            Libsoxr().resample(noise(100), 16000, 24000)
    else:
        Libsoxr().resample(noise(100), 16000, 24000)
    assert not living


def test_imports_nothing_of_the_reference() -> None:
    code = (
        "import sys, numpy as np\nfrom ports.resampler import Libsoxr\n"
        "Libsoxr().resample(np.zeros(10, np.float32), 16000, 16000)\n"
        "assert 'libsoxr' not in open('/proc/self/maps').read()\n"
        "Libsoxr().resample(np.zeros(10, np.float32), 16000, 24000)\n"
        "assert not {'librosa', 'soxr', 'scipy', 'torch'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
