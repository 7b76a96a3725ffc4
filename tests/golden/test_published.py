"""What others publish of the real weights, wherever the real weights and the clip are at hand."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import numpy as np
import pytest

from harness import signals
from harness.checkpoints import cache_folder, find_checkpoint
from harness.clips import load_clips, one_channel
from harness.families.mimi import FAMILY
from references.mimi import HuggingFace

PINS = tomllib.loads((Path(__file__).parents[2] / "golden/published/mimi.toml").read_text())["pin"]


def figures(model, samples, codebooks):
    """The sum of the first codebooks' codes, and the error of what they decode to as the pins define it."""
    codes = model.encode(samples)["codes"][:codebooks]
    decoded = model.decode(codes)[: len(samples)]
    left, right = (side.astype(np.float64) / np.linalg.norm(side) for side in (samples, decoded))
    return int(codes.sum()), float(np.sqrt(np.mean((left - right) ** 2)))


def departures(pin, found):
    """Which figures of a pin are not those found."""
    code_sum, rmse = found
    within = {
        "code_sum": abs(code_sum - pin["code_sum"]) <= pin["code_sum_tolerance"] * pin["code_sum"],
        "rmse": abs(rmse - pin["rmse"]) <= pin["rmse_tolerance"],
    }
    return [name for name, good in within.items() if not good]


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: f"{pin['clip']}-{pin['codebooks']}")
def test_the_real_weights_give_the_published_figures(pin):
    from huggingface_hub import try_to_load_from_cache

    source = dataclasses.replace(FAMILY.checkpoint, chosen=pin["checkpoint"])
    pinned = source.hub[pin["checkpoint"]]
    if not all(
        isinstance(try_to_load_from_cache(pin["checkpoint"], name, revision=pinned.revision), str)
        for name in pinned.files
    ):
        pytest.skip(f"{pin['checkpoint']} at {pinned.revision} is not in the hub's cache")
    folder = cache_folder() / "published"
    clips = {clip.id: clip for clip in load_clips(folder)} if folder.is_dir() else {}
    if pin["clip"] not in clips:
        pytest.skip(f"no {pin['clip']}.flac in {folder}: {pin['origin']}")
    model = HuggingFace(checkpoint=find_checkpoint(source).folder)
    assert departures(pin, figures(model, one_channel(clips[pin["clip"]], 24000).samples, pin["codebooks"])) == []


def test_other_weights_do_not_give_them():
    model = HuggingFace(checkpoint=find_checkpoint(FAMILY.checkpoint).folder)
    code_sum, rmse = figures(model, signals.log_sweep(24000, duration_s=1.0).samples, 8)
    own = {**PINS[0], "code_sum": code_sum, "rmse": rmse}
    assert departures(own, (code_sum, rmse)) == []
    assert departures(own, (round(1.004 * code_sum), rmse + 2e-5)) == ["code_sum", "rmse"]
    assert departures(PINS[0], (code_sum, rmse)) == ["code_sum", "rmse"]
    assert all(departures(pin, (pin["code_sum"], pin["rmse"])) == [] for pin in PINS)
