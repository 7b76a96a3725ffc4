"""Ports of the resampler that misbehave, each in one way a real port does. Loaded by workers through a parity.toml."""

from __future__ import annotations

import ctypes
import os
import sys
import time

import numpy as np


class Good:
    """soxr itself; the others spoil its answer, most of them from the third clip on."""

    version = "1"

    def __init__(self) -> None:
        self.calls = 0

    def resample(self, samples: np.ndarray, rate_hz: int, target_rate_hz: int) -> object:
        import soxr

        count = int(np.ceil(samples.shape[-1] * (float(target_rate_hz) / rate_hz)))
        if rate_hz == target_rate_hz or samples.shape[-1] == 0:
            result = samples
        else:
            result = soxr.resample(samples.T, rate_hz, target_rate_hz, quality="HQ").T
        padding = [(0, 0)] * (result.ndim - 1) + [(0, max(0, count - result.shape[-1]))]
        self.calls += 1
        return self.spoil(np.pad(result, padding)[..., :count])

    def spoil(self, result: np.ndarray) -> object:
        return result


class Exits(Good):
    def spoil(self, result: np.ndarray) -> object:
        if self.calls > 4:
            print("about to leave", file=sys.stderr)
            sys.exit(7)
        return result


class Aborts(Good):
    def spoil(self, result: np.ndarray) -> object:
        if self.calls > 4:
            os.abort()
        return result


class Segfaults(Good):
    def spoil(self, result: np.ndarray) -> object:
        return ctypes.string_at(0) if self.calls > 4 else result


class Sleeps(Good):
    def spoil(self, result: np.ndarray) -> object:
        if self.calls > 4:
            time.sleep(3600)
        return result


class Raises(Good):
    def spoil(self, result: np.ndarray) -> object:
        if self.calls in (5, 6):
            raise RuntimeError("no kernel for this shape")
        return result


class Garbage(Good):
    """Prints on both streams, natively too, and still answers right."""

    def spoil(self, result: np.ndarray) -> object:
        print("{not json\n" * 50)
        os.write(1, b"\xff\xfe garbage \x00\n" * 200)
        os.write(2, b"x" * 100_000)
        return result


class WrongShape(Good):
    def spoil(self, result: np.ndarray) -> object:
        return result[None, :]


class WrongDtype(Good):
    def spoil(self, result: np.ndarray) -> object:
        return result.astype(np.float64)


class WrongLength(Good):
    def spoil(self, result: np.ndarray) -> object:
        return result[..., :-1]


class Nothing(Good):
    def spoil(self, result: np.ndarray) -> object:
        return None


class NotANumber(Good):
    def spoil(self, result: np.ndarray) -> object:
        spoiled = result.copy()
        spoiled[..., -1:] = np.nan
        return spoiled


class DoesNotLoad(Good):
    def __init__(self) -> None:
        raise RuntimeError("bad weights")


class NotInstalled(Good):
    def __init__(self) -> None:
        import a_package_that_is_not_there  # noqa: F401


class LoadsForever(Good):
    def __init__(self) -> None:
        time.sleep(3600)
