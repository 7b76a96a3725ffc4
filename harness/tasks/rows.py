"""The rows of measurements that several tasks make alike, each in the units of its own task.

Conventions: two arrays that cannot be compared give an invalid row that says why, never an exception, so that the other
rows of a clip are not lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.measurements import Measurement
from harness.metrics import speech
from harness.metrics.tensors import NotComparable, TensorError, compare_tensors
from harness.observations import TAP_PREFIX, Observation

# The published whole-answer gate and the companions that see order and content.
SPEECH_METRICS: Mapping[str, str] = {
    "spectral_distance_db": "dB",
    "duration_ratio_error": "1",
    "rms_ratio_octaves": "octaves",
    "log_spectral_distance_db": "dB",
    "envelope_decorrelation": "1",
}
TAP_METRICS: Mapping[str, str] = {"tap_nrmse": "1", "taps_missing": "taps"}


@dataclass(frozen=True)
class Rows:
    """Makes a task's rows. units: the task's METRICS."""

    units: Mapping[str, str]

    def measured(self, metric: str, place: str, value: float, detail: str = "") -> Measurement:
        """A value."""
        return Measurement(metric, self.units[metric], place, float(value), detail)

    def invalid(self, metric: str, place: str, reason: object) -> Measurement:
        """No value, because the port's output cannot be compared."""
        return Measurement(metric, self.units[metric], place, math.nan, str(reason), "invalid")

    def max_abs(self, metric: str, place: str, expected: NDArray[Any], obtained: NDArray[Any]) -> Measurement:
        """The largest difference."""
        return self._error(metric, place, expected, obtained, lambda error: error.max_abs)

    def nrmse(self, metric: str, place: str, expected: NDArray[Any], obtained: NDArray[Any]) -> Measurement:
        """Root mean square error over the reference's own root mean square."""
        return self._error(metric, place, expected, obtained, lambda error: math.sqrt(error.nmse))

    def _error(
        self,
        metric: str,
        place: str,
        expected: NDArray[Any],
        obtained: NDArray[Any],
        value: Callable[[TensorError], float],
    ) -> Measurement:
        try:
            error = compare_tensors(expected, obtained)
        except NotComparable as reason:
            return self.invalid(metric, place, reason)
        if not error.size:
            return self.invalid(metric, place, f"shape {list(expected.shape)}: nothing was compared")
        worst = f"{error.port_at_worst:.9g}, reference {error.reference_at_worst:.9g}"
        return self.measured(metric, place, value(error), f"largest at {list(error.worst_index)}: {worst}")

    def speech(self, place: str, expected: NDArray[Any], obtained: NDArray[Any], rate_hz: int) -> Iterator[Measurement]:
        """The rows of SPEECH_METRICS of two waveforms [N] or [C, N], whose channels are averaged."""
        if 0 in (expected.ndim, obtained.ndim):
            for metric in SPEECH_METRICS:
                yield self.invalid(metric, place, f"a single number, not a waveform: {obtained}, reference {expected}")
            return
        left, right = (np.atleast_2d(side).mean(axis=0) for side in (expected, obtained))
        fit = speech.describe_fit(*speech.fit_gain_and_lag(left, right))
        yield self.measured("spectral_distance_db", place, speech.spectral_distance_db(left, right), fit)
        yield self.measured("duration_ratio_error", place, abs(speech.duration_ratio(left, right) - 1))
        ratio = speech.rms_ratio(left, right)
        octaves = abs(math.log2(ratio)) if ratio > 0 else math.inf
        yield self.measured("rms_ratio_octaves", place, octaves, f"ratio {ratio:.4g}")
        distance = speech.frame_log_spectral_distance_db(left, right, rate_hz)
        yield self.measured("log_spectral_distance_db", place, distance, fit)
        correlation = speech.envelope_correlation(left, right, rate_hz)
        yield self.measured("envelope_decorrelation", place, 1 - correlation)

    def taps(self, reference: Observation, port: Observation) -> Iterator[Measurement]:
        """The rows of TAP_METRICS, taps matched by name; none when a side has no taps."""
        if not (reference.taps and port.taps):
            return
        missing = [tap for tap in reference.taps if tap not in port.taps]
        yield self.measured("taps_missing", "taps", len(missing), f"not in the port: {missing}" if missing else "")
        for tap in reference.taps:
            if tap not in missing:
                place = TAP_PREFIX + tap
                yield self.nrmse("tap_nrmse", place, reference.tensors[place], port.tensors[place])
