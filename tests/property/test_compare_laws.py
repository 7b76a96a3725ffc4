"""Whatever a port hands over, a comparison ends with measurements or `NotComparable`, and never passes vacuously."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from harness.clips import Clip
from harness.metrics.tensors import NotComparable
from harness.observations import Observation
from harness.tasks import Task, load_task

ARRAYS = st.sampled_from([np.float32, np.float64, np.float16, np.int16, np.uint8, np.bool_]).flatmap(
    lambda dtype: hnp.arrays(
        dtype,
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=40),
        elements={"allow_nan": False} if np.issubdtype(dtype, np.floating) else None,
    )
)


def observation(name: str, **tensors: Any) -> Observation:
    return Observation(implementation=name, clip="c", clip_digest="d", version="", tensors=tensors)


def clip(scope: str, kind: str, samples: np.ndarray) -> Clip:
    return Clip("c", samples, 16000, scope, signal={"kind": kind, "amplitude": 0.5, "position_samples": 400,
                "frequency_hz": 997.0, "from_hz": 20.0, "to_hz": 8000.0})  # type: ignore[arg-type]  # fmt: skip


CASES = [("clips", ""), ("signals", "impulse"), ("signals", "sweep"), ("signals", "sine"), ("signals", "noise")]


@pytest.mark.parametrize(("scope", "kind"), CASES)
@given(outputs=st.tuples(ARRAYS, ARRAYS), streamed=ARRAYS)
def test_any_resampler_output(scope: str, kind: str, outputs: tuple[Any, Any], streamed: Any) -> None:
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, 1600).astype(np.float32)
    reference = observation("r", resampled_16000=samples, resampled_24000=np.repeat(samples, 2)[:2400])
    port = observation("p", resampled_16000=outputs[0], resampled_24000=outputs[1], streamed_16000=streamed)
    assert not passes(load_task("resampler"), reference, port, clip(scope, kind, samples), "max_abs")


@given(probability=ARRAYS, streamed=ARRAYS, tap=ARRAYS)
def test_any_voice_activity_output(probability: Any, streamed: Any, tap: Any) -> None:
    samples = np.zeros(16000, dtype=np.float32)
    taps = {"taps": ("one",)}
    course = np.linspace(0.1, 0.9, 32, dtype=np.float32)
    reference = Observation("r", "c", "d", "", {"probability": course, "tap/one": course}, **taps)
    port = Observation("p", "c", "d", "", {"probability": probability, "streamed": streamed, "tap/one": tap}, **taps)
    assert not passes(load_task("voice-activity"), reference, port, clip("clips", "", samples), "probability_max_abs")


def passes(task: Task, reference: Observation, port: Observation, item: Clip, metric: str) -> bool:
    """Whether a metric that sees every difference was measured everywhere, with no difference anywhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # float16 and float64 extremes overflow on purpose
        try:
            measured = list(task.compare(reference, port, item))
        except NotComparable:
            return False
    values = [row.value for row in measured if row.metric == metric]
    assert values
    assert all(row.metric in task.METRICS for row in measured)
    assert all(math.isnan(row.value) for row in measured if row.state == "invalid")
    return all(value <= 1e-6 for value in values)
