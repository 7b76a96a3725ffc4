"""The wrapper of the reference: chunks, state, rates, and taps that belong to its own probabilities."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("silero_vad")
pytest.importorskip("torch")

from references.silero_vad import TorchScript

# torch 2.13 (2026) deprecates torch.jit.load; silero-vad 6.2.3 publishes its model in no other form that torch loads.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

TAP_SHAPES = {
    "input": (576,),
    "spectrum": (129, 4),
    "conv1": (128, 4),
    "conv2": (64, 2),
    "conv3": (64, 1),
    "conv4": (128,),
    "lstm_h": (128,),
    "lstm_c": (128,),
    "logit": (),
    "probability": (),
}


@functools.cache
def reference() -> Any:
    return TorchScript()


def noise(length: int) -> np.ndarray:
    return np.random.default_rng(length).uniform(-0.3, 0.3, length).astype(np.float32)


@pytest.mark.parametrize(("rate_hz", "chunk"), [(16000, 512), (8000, 256)])
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_one_probability_per_chunk(rate_hz: int, chunk: int, extra: int) -> None:
    probabilities = reference().probabilities(noise(5 * chunk + extra), rate_hz)
    assert probabilities.shape == (5 + (extra > 0),)
    assert probabilities.dtype == np.float32
    assert np.all((probabilities > 0) & (probabilities < 1))


@pytest.mark.parametrize(("length", "count"), [(0, 0), (1, 1), (100, 1)])
def test_short_input(length: int, count: int) -> None:
    assert reference().probabilities(noise(length), 16000).shape == (count,)


@pytest.mark.parametrize("rate_hz", [16000, 8000])
def test_the_packages_own_loop_gives_the_same(rate_hz: int) -> None:
    import torch

    samples = noise(9000)
    with torch.no_grad():
        expected = reference()._model.audio_forward(torch.from_numpy(samples)[None], rate_hz)[0].numpy()
    assert np.array_equal(reference().probabilities(samples, rate_hz), expected)


def test_every_call_starts_fresh() -> None:
    samples = noise(6000)
    first = reference().probabilities(samples, 16000)
    assert np.array_equal(reference().probabilities(samples, 16000), first)
    reference().start(16000)
    assert reference().push(samples[:512]) == first[0]


def test_rates_follow_each_other() -> None:
    samples = noise(6000)
    first = reference().probabilities(samples, 16000)
    reference().probabilities(samples, 8000)
    assert np.array_equal(reference().probabilities(samples, 16000), first)


def test_taps_belong_to_the_probabilities() -> None:
    samples = noise(3000)
    taps = reference().taps(samples, 16000)
    assert {name: tap.shape for name, tap in taps.items()} == {n: (6, *shape) for n, shape in TAP_SHAPES.items()}
    assert list(taps) == list(TAP_SHAPES)
    assert all(tap.dtype == np.float32 for tap in taps.values())
    assert np.max(np.abs(taps["probability"] - reference().probabilities(samples, 16000))) <= 1e-6
