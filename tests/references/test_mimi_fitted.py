"""The made checkpoint: the same everywhere, in two layouts, with codes that vary and a residual that shrinks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from harness.checkpoints import find_checkpoint, folder_digests
from harness.clips import load_clips
from harness.families.mimi import FAMILY
from harness.pipeline import GOLDEN
from harness.tasks import codec
from ports import mimi
from references import mimi_fitted, mimi_layout


@pytest.fixture(scope="module")
def folder():
    return find_checkpoint(FAMILY.checkpoint).folder


def test_noise_is_the_same_on_every_machine():
    values = mimi_fitted.noise("encoder.model.0.conv.conv.weight", (100000,))
    assert abs(values.mean()) < 0.01
    assert abs(values.std() - 1) < 0.01
    again = mimi_fitted.noise("encoder.model.0.conv.conv.weight", (100000,))
    np.testing.assert_array_equal(values, again)


@pytest.mark.slow
def test_made_again_the_bytes_are_those_declared(tmp_path):
    mimi_fitted.make(tmp_path)
    assert folder_digests(tmp_path) == dict(mimi_fitted.DIGESTS)


@pytest.mark.slow
def test_the_layouts_hold_the_same_numbers(folder):
    native, hf = load_file(folder / "native.safetensors"), load_file(folder / "hf" / "model.safetensors")
    back = mimi_layout.to_native(hf)
    assert back.keys() == native.keys()
    for name, tensor in native.items():
        np.testing.assert_array_equal(back[name], tensor, err_msg=name)


@pytest.mark.slow
def test_transformers_finds_every_tensor_and_no_other(folder):
    from transformers import MimiModel

    _, found = MimiModel.from_pretrained(folder / "hf", output_loading_info=True)
    assert not found["missing_keys"]
    assert not found["unexpected_keys"]
    assert not found["mismatched_keys"]


@pytest.mark.slow
def test_codes_vary_and_the_residual_shrinks(folder):
    clips = {clip.id: clip for clip in codec.stimuli(load_clips(GOLDEN / "clips"))}
    port = mimi.Torch(checkpoint=folder)
    encoded = port.encode(clips["joe-lighthouse"].samples)
    codes = encoded["codes"]
    changed = (codes[:, 1:] != codes[:, :-1]).mean(axis=1)
    assert changed.min() > 0.7
    # The distance to the chosen entry is what the codebook leaves.
    left = (encoded["distances"][..., 0].astype(np.float64) ** 2).sum(axis=1)
    assert (np.diff(left[1:]) < 0).all()
    assert left[31] < 0.25 * left[1]


@pytest.mark.slow
def test_one_entry_in_sixteen_needs_the_clamp(folder):
    weights = mimi.load_weights(folder / "native.safetensors")
    sums, usage = mimi.weights_of_codebook(weights, 5)
    assert int((usage < 1e-5).sum()) == 128
    entries = mimi.codebook(sums, usage)
    unclamped = sums / usage[:, None]
    assert torch.equal(entries[1], unclamped[1])
    assert not torch.allclose(entries[0], unclamped[0], rtol=0.5)
