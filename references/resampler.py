"""References of the family `resampler`: soxr's HQ recipe as librosa and as python-soxr run it.

Conventions: samples are float32 or float64, [N] or [C, N]; rates in Hz; output [M] or [C, M] with
M = int(ceil(N * (float(target) / rate))) and the dtype of the input. Equal rates return the input, empty input an empty
output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Librosa:
    """`librosa.resample` with its defaults: res_type `soxr_hq`, fix, no scaling. It has no streaming."""

    def __init__(self) -> None:
        import librosa
        import soxr

        self._librosa = librosa
        self.version = f"librosa {librosa.__version__}, soxr {soxr.__version__}"

    def resample(self, samples: NDArray[Any], rate_hz: int, target_rate_hz: int) -> NDArray[Any]:
        """[N] or [C, N] at `rate_hz` to [M] or [C, M] at `target_rate_hz`."""
        if samples.shape[-1] == 0:
            return samples.copy()  # librosa refuses an empty array
        return self._librosa.resample(samples, orig_sr=rate_hz, target_sr=target_rate_hz)


class PythonSoxr:
    """python-soxr, quality HQ.

    soxr yields floor(N * ratio + 0.5) samples. Trimming or zero-padding them to librosa's length is part of this
    wrapper, not of soxr.
    """

    def __init__(self) -> None:
        import soxr

        self._soxr = soxr
        self.version = f"soxr {soxr.__version__}, {soxr.__libsoxr_version__}"

    def resample(self, samples: NDArray[Any], rate_hz: int, target_rate_hz: int) -> NDArray[Any]:
        """[N] or [C, N] at `rate_hz` to [M] or [C, M] at `target_rate_hz`."""
        if rate_hz == target_rate_hz or samples.shape[-1] == 0:
            return samples.copy()
        converted = self._soxr.resample(samples.T, rate_hz, target_rate_hz, quality="HQ")
        return _fit(converted.T, samples.shape[-1], rate_hz, target_rate_hz)

    def stream(self, blocks: Sequence[NDArray[Any]], rate_hz: int, target_rate_hz: int) -> NDArray[Any]:
        """The same from blocks [N_i] or [C, N_i], by one `ResampleStream` that is flushed after the last."""
        whole = np.concatenate(blocks, axis=-1)
        if rate_hz == target_rate_hz or whole.shape[-1] == 0:
            return whole
        channels = math.prod(whole.shape[:-1])
        stream = self._soxr.ResampleStream(rate_hz, target_rate_hz, channels, dtype=whole.dtype, quality="HQ")
        last = len(blocks) - 1
        parts = [stream.resample_chunk(block.T, last=index == last).T for index, block in enumerate(blocks)]
        return _fit(np.concatenate(parts, axis=-1), whole.shape[-1], rate_hz, target_rate_hz)


def _fit(converted: NDArray[Any], count: int, rate_hz: int, target_rate_hz: int) -> NDArray[Any]:
    """Trim, or pad with zeros at the end, to the length librosa gives for `count` input samples."""
    length = math.ceil(count * (float(target_rate_hz) / rate_hz))
    fitted = np.zeros((*converted.shape[:-1], length), converted.dtype)
    kept = min(length, converted.shape[-1])
    fitted[..., :kept] = converted[..., :kept]
    return fitted
