"""Port of the family `resampler`: the system's libsoxr through its C API.

Conventions: samples are float32 or float64, [N] or [C, N]; frames are [N, C], the interleaved layout of libsoxr; rates
in Hz. libsoxr is LGPL-2.1-or-later; it is loaded at run time, and only when something must be resampled.

Source: `soxr.h` of libsoxr 0.1.3 for the C API; librosa 0.11 for the length, the padding and the absence of scaling.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_double, c_size_t, c_uint, c_ulong, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import Unavailable

LIBRARY = "libsoxr.so.0"
INSTALL = "apt-get install libsoxr0"
# QQ 0, LQ 1, MQ 2, HQ 4 (20 bit), VHQ 6. soxr_create takes HQ when it is given none, soxr_oneshot takes LQ.
RECIPE = 4
SAMPLE_TYPES = {np.dtype(np.float32): 0, np.dtype(np.float64): 1}  # SOXR_FLOAT32_I, SOXR_FLOAT64_I


class IoSpec(ctypes.Structure):
    """soxr_io_spec_t."""

    _fields_ = (("itype", c_uint), ("otype", c_uint), ("scale", c_double), ("e", c_void_p), ("flags", c_ulong))


class QualitySpec(ctypes.Structure):
    """soxr_quality_spec_t."""

    _fields_ = (
        ("precision", c_double),
        ("phase_response", c_double),
        ("passband_end", c_double),
        ("stopband_begin", c_double),
        ("e", c_void_p),
        ("flags", c_ulong),
    )


class Libsoxr:
    """libsoxr, quality HQ, one thread."""

    @property
    def version(self) -> str:
        """What the library says of itself. Raises Unavailable."""
        return str(library().soxr_version().decode())

    def check(self) -> None:
        """Raise Unavailable, with the command that installs it, when there is no libsoxr."""
        library()

    def resample(self, samples: NDArray[Any], rate_hz: int, target_rate_hz: int) -> NDArray[Any]:
        """[N] or [C, N] at `rate_hz` to [M] or [C, M] at `target_rate_hz`, dtype kept.

        Raises ValueError for another dtype, Unavailable without libsoxr, RuntimeError with libsoxr's own words.
        """
        return self.stream([samples], rate_hz, target_rate_hz)

    def stream(self, blocks: Sequence[NDArray[Any]], rate_hz: int, target_rate_hz: int) -> NDArray[Any]:
        """The same from blocks [N_i] or [C, N_i], handed to one resampler one after the other."""
        dtype, leading = blocks[0].dtype, blocks[0].shape[:-1]  # () or (C,)
        if any(block.dtype != dtype for block in blocks) or dtype not in SAMPLE_TYPES:
            raise ValueError(
                f"blocks of dtype {[str(block.dtype) for block in blocks][:3]}; expected float32 or float64"
            )
        count = sum(block.shape[-1] for block in blocks)  # N
        if rate_hz == target_rate_hz or count == 0:
            return np.concatenate(blocks, axis=-1)
        frames = [np.ascontiguousarray(np.atleast_2d(block).T) for block in blocks]  # [N_i, C]
        converted = convert(frames, rate_hz, target_rate_hz, output_length(count, rate_hz, target_rate_hz))  # [M, C]
        return np.ascontiguousarray(converted.T).reshape(*leading, -1)  # [M] or [C, M]


def output_length(count: int, rate_hz: int, target_rate_hz: int) -> int:
    """Samples that `count` samples become. The ratio is rounded to float64 first: 147 at 44100 give 81 at 24000."""
    return math.ceil(count * (float(target_rate_hz) / rate_hz))


def convert(blocks: Sequence[NDArray[Any]], rate_hz: int, target_rate_hz: int, length: int) -> NDArray[Any]:
    """Blocks [N_i, C], each contiguous, to [length, C].

    libsoxr itself makes floor(N * ratio + 0.5) frames: what it leaves of `length` stays zero. Raises RuntimeError.
    """
    out = np.zeros((length, blocks[0].shape[1]), blocks[0].dtype)
    resampler = create(rate_hz, target_rate_hz, channels=out.shape[1], dtype=out.dtype)
    try:
        filled = 0
        for block in blocks:
            filled += feed(resampler, block, out[filled:])
        flush(resampler, out[filled:])
    finally:
        library().soxr_delete(resampler)
    return out


def create(rate_hz: int, target_rate_hz: int, channels: int, dtype: np.dtype[Any]) -> c_void_p:
    """A new resampler, to be deleted by the caller. Raises RuntimeError."""
    soxr = library()
    io = soxr.soxr_io_spec(SAMPLE_TYPES[dtype], SAMPLE_TYPES[dtype])
    quality = soxr.soxr_quality_spec(RECIPE, 0)
    error = c_char_p()
    created = soxr.soxr_create(rate_hz, target_rate_hz, channels, byref(error), byref(io), byref(quality), None)
    _refuse(error.value)
    return c_void_p(created)


def feed(resampler: c_void_p, block: NDArray[Any], room: NDArray[Any]) -> int:
    """Give all of `block` [N_i, C], write what comes out into `room` [R, C]; frames written. Raises RuntimeError."""
    filled = 0
    while len(block):
        consumed, made = process(resampler, block, room[filled:])
        if not consumed and not made:
            raise RuntimeError(f"libsoxr leaves {len(block)} frames of its input")
        block = block[consumed:]
        filled += made
    return filled


def flush(resampler: c_void_p, room: NDArray[Any]) -> None:
    """End the input; write what libsoxr still holds into `room` [R, C], until it is full or nothing comes out."""
    while len(room) and (made := process(resampler, None, room)[1]):
        room = room[made:]


def process(resampler: c_void_p, block: NDArray[Any] | None, room: NDArray[Any]) -> tuple[int, int]:
    """One soxr_process: frames consumed of `block` [N_i, C] and written to `room` [R, C]. None ends the input."""
    consumed, made = c_size_t(), c_size_t()
    source, count = (None, 0) if block is None else (block.ctypes.data, len(block))
    _refuse(library().soxr_process(resampler, source, count, byref(consumed), room.ctypes.data, len(room), byref(made)))
    return consumed.value, made.value


def library() -> ctypes.CDLL:
    """The loaded libsoxr. Raises Unavailable."""
    return _load(LIBRARY)


@functools.cache
def _load(name: str) -> ctypes.CDLL:
    try:
        soxr = ctypes.CDLL(name)
    except OSError as error:
        raise Unavailable(f"{name} is not installed ({error}); {INSTALL}") from error
    soxr.soxr_version.restype = c_char_p
    soxr.soxr_version.argtypes = ()
    soxr.soxr_io_spec.restype = IoSpec
    soxr.soxr_io_spec.argtypes = (c_uint, c_uint)
    soxr.soxr_quality_spec.restype = QualitySpec
    soxr.soxr_quality_spec.argtypes = (c_ulong, c_ulong)
    soxr.soxr_create.restype = c_void_p
    soxr.soxr_create.argtypes = (
        c_double, c_double, c_uint, POINTER(c_char_p), POINTER(IoSpec), POINTER(QualitySpec), c_void_p,
    )  # fmt: skip
    soxr.soxr_process.restype = c_char_p
    soxr.soxr_process.argtypes = (
        c_void_p, c_void_p, c_size_t, POINTER(c_size_t), c_void_p, c_size_t, POINTER(c_size_t),
    )  # fmt: skip
    soxr.soxr_delete.restype = None
    soxr.soxr_delete.argtypes = (c_void_p,)
    return soxr


def _refuse(message: bytes | None) -> None:
    """Libsoxr's errors are C strings; NULL is success."""
    if message is not None:
        raise RuntimeError(f"libsoxr: {message.decode()}")
