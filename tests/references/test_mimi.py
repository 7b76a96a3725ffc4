"""What the codec's references give on the fitted checkpoint, and how exactly two implementations agree on margins."""

from __future__ import annotations

import numpy as np
import pytest

from harness.checkpoints import find_checkpoint
from harness.clips import load_clips, one_channel
from harness.families.mimi import EIGHT, FAMILY
from harness.pipeline import GOLDEN
from harness.tasks.codec import TIE_MARGIN
from ports import mimi_weights
from ports.mimi import Torch
from references import mimi_layout
from references.mimi import HuggingFace


@pytest.fixture(scope="module")
def folder():
    return find_checkpoint(FAMILY.checkpoint).folder


@pytest.fixture(scope="module")
def samples():
    clips = {clip.id: clip for clip in load_clips(GOLDEN / "clips")}
    return one_channel(clips["stereo-two-speakers"], 24000).samples


@pytest.fixture(scope="module")
def encoded(folder, samples):
    return HuggingFace(checkpoint=folder).encode(samples)


@pytest.mark.slow
def test_the_tie_limit_is_just_above_what_two_implementations_differ_in(folder, samples, encoded):
    other = Torch(checkpoint=folder).encode(samples)
    np.testing.assert_array_equal(other["candidates"][..., 0], encoded["candidates"][..., 0])
    same = other["candidates"] == encoded["candidates"]
    margins = [side["distances"].astype(np.float64) / side["distances"][..., :1] for side in (encoded, other)]
    largest = np.abs(margins[1] - margins[0])[same].max()
    assert TIE_MARGIN / 10 < largest <= TIE_MARGIN
    assert same.mean() > 0.999


@pytest.mark.slow
def test_candidates_are_what_the_package_chose_and_nearest_first(encoded):
    np.testing.assert_array_equal(encoded["candidates"][..., 0], encoded["codes"])
    assert np.all(np.diff(encoded["distances"], axis=-1) >= 0)


@pytest.mark.slow
def test_the_variant_gives_the_first_eight_codebooks(folder, samples, encoded):
    np.testing.assert_array_equal(HuggingFace(EIGHT, checkpoint=folder).encode(samples)["codes"], encoded["codes"][:8])


def test_the_port_reads_every_tensor_that_the_layout_holds_but_the_flags():
    layout = {name: shape for name, shape in mimi_layout.shapes().items() if not name.endswith("._initialized")}
    assert dict(mimi_weights.shapes()) == layout
