"""Our port of Mimi: one stream, however it is cut, and the published file read strictly."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from harness import signals
from harness.checkpoints import find_checkpoint
from harness.errors import ParityError
from harness.families.mimi import FAMILY
from harness.tasks.codec import chunkings
from ports import mimi

FRAME = 1920


@pytest.fixture(scope="module")
def folder():
    return find_checkpoint(FAMILY.checkpoint).folder


@pytest.fixture(scope="module")
def port(folder):
    return mimi.Torch(checkpoint=folder)


@pytest.fixture(scope="module")
def reference(folder):
    from references.mimi import HuggingFace

    return HuggingFace(checkpoint=folder)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, FRAME - 1, FRAME, FRAME + 1, 5 * FRAME + 7])
def test_every_length_gives_the_references_codes_and_sound(port, reference, length):
    samples = signals.noise(24000, length, seed=length).samples
    ours, theirs = port.encode(samples), reference.encode(samples)
    assert ours["codes"].shape == (32, -(-length // FRAME))
    np.testing.assert_array_equal(ours["codes"], theirs["codes"])
    np.testing.assert_array_equal(ours["candidates"][..., 0], ours["codes"])
    sound = port.decode(theirs["codes"])
    assert sound.shape == (FRAME * theirs["codes"].shape[1],)
    assert np.abs(sound - reference.decode(theirs["codes"])).max() < 1e-5


@pytest.mark.slow
def test_25_seconds_in_chunks_are_the_whole(port):
    samples = signals.noise(24000, 313 * FRAME, seed=25).samples  # 25.04 s, 626 steps of attention
    whole = port.encode(samples)["codes"]
    frames = chunkings(313)["7"]
    np.testing.assert_array_equal(port.encode_stream(samples, frames), whole)
    assert np.abs(port.decode_stream(whole, frames) - port.decode(whole)).max() < 1e-4


@pytest.mark.slow
def test_attention_forgets_after_ten_seconds(port, monkeypatch):
    samples = signals.noise(24000, 140 * FRAME, seed=3).samples
    whole = port.encode(samples)["codes"]
    monkeypatch.setattr(mimi, "CONTEXT", 1 << 20)
    unlimited = port.encode(samples)["codes"]
    np.testing.assert_array_equal(unlimited[:, :125], whole[:, :125])
    assert (unlimited[:, 125:] != whole[:, 125:]).any()


def test_a_missing_tensor_is_named(folder, tmp_path):
    weights = load_file(folder / "native.safetensors")
    del weights["encoder.model.3.conv.conv.bias"]
    save_file(weights, tmp_path / "native.safetensors")
    with pytest.raises(ParityError, match=r"encoder\.model\.3\.conv\.conv\.bias is missing.*\[128\]"):
        mimi.Torch(checkpoint=tmp_path)


def test_a_tensor_of_another_shape_is_named(folder, tmp_path):
    weights = load_file(folder / "native.safetensors")
    weights["downsample.conv.conv.conv.weight"] = np.zeros((512, 1, 4), np.float32)
    save_file(weights, tmp_path / "native.safetensors")
    with pytest.raises(ParityError, match=r"downsample.*\[512, 1, 4\].*\[512, 512, 4\]"):
        mimi.Torch(checkpoint=tmp_path)


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "native.safetensors").write_bytes(b"not weights")
    with pytest.raises(ParityError, match="cannot be read"):
        mimi.Torch(checkpoint=tmp_path)
