"""Our port of Mimi against transformers' MimiModel with the same random weights; one stream, however it is cut."""

from __future__ import annotations

import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from harness import signals
from harness.errors import ParityError
from harness.tasks.codec import TIE_MARGIN, chunkings

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from ports import mimi  # noqa: E402  after the skip: it needs torch

FRAME = 1920
CODEBOOKS = 32
# Of transformers' name, then of moshi's.
RENAMED = (
    (r"(en|de)coder\.\1coder_", r"\1coder_"),
    (r"^(en|de)coder_seanet\.layers", r"\1coder.model"),
    (r"^(encoder|decoder)\.(downsample|upsample)", r"\2.conv"),
    (r"_transformer\.layers", "_transformer.transformer.layers"),
    ("o_proj", "out_proj"),
    ("self_attn_layer_scale", "layer_scale_1"),
    ("mlp_layer_scale", "layer_scale_2"),
    (r"mlp\.fc(\d)", r"linear\1"),
    ("input_layernorm", "norm1"),
    ("post_attention_layernorm", "norm2"),
    (r"semantic_residual_vector_quantizer", "rvq_first"),
    (r"acoustic_residual_vector_quantizer", "rvq_rest"),
    (r"(rvq_\w+)\.layers\.(\d+)\.codebook\.", r"\1.vq.layers.\2._codebook."),
    ("embed_sum", "embedding_sum"),
    (r"conv\.(weight|bias)", r"conv.conv.\1"),
    (r"(decoder\.model\.(?:2|5|8|11)\.|upsample\.conv\.)conv\.conv", r"\1convtr.convtr"),
    (r"upsample\.conv\.", "upsample.convtr."),
)


@pytest.fixture(scope="module")
def reference():
    """MimiModel with gains that keep a sound alive, and codebooks about the residuals that noise leaves."""
    model = transformers.MimiModel(transformers.MimiConfig()).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.inference_mode():
        for name, weight in model.named_parameters():
            if name.endswith(".bias"):
                weight.normal_(0, 0.02, generator=generator)
            elif weight.dim() == 1:  # norms and layer scales
                weight.normal_(0.3 if "scale" in name else 1.0, 0.05, generator=generator)
            else:
                transposed = re.search(r"decoder_seanet\.layers\.(2|5|8|11)\.", name)
                fan_in = 2 * weight.shape[0] if transposed else weight[0].numel()
                weight.normal_(0, (2.0 / fan_in) ** 0.5, generator=generator)
        _fit(model, generator)
    return model


@pytest.fixture(scope="module")
def folder(reference, tmp_path_factory):
    path = tmp_path_factory.mktemp("mimi")
    save_file(_native(reference), path / "native.safetensors")
    return path


@pytest.fixture(scope="module")
def port(folder):
    return mimi.Torch(checkpoint=folder)


def _fit(model, generator) -> None:
    kept = []
    handle = model.encoder.downsample.register_forward_hook(lambda module, inputs, output: kept.append(output))
    model.encode(_padded(_noise(60 * FRAME, seed=1)), num_quantizers=CODEBOOKS)
    handle.remove()
    quantizer = model.quantizer
    steep = 1 / (1 + torch.arange(256) / 4)[:, None, None]  # in 256 like dimensions all entries are about as far
    for chain in (quantizer.semantic_residual_vector_quantizer, quantizer.acoustic_residual_vector_quantizer):
        chain.input_proj.weight *= steep
        residual = chain.input_proj(kept[0])[0].T  # [T, 256]
        for layer in chain.layers:
            codebook = layer.codebook
            spread = torch.randn(codebook.embed_sum.shape, generator=generator)
            codebook.cluster_usage.uniform_(0.5, 8.0, generator=generator)
            codebook.cluster_usage[::16] = 1e-6  # below the clamp
            entries = residual.mean(0) + 0.5 * residual.std(0) * spread  # [2048, 256]
            codebook.embed_sum.copy_(entries * codebook.cluster_usage.clamp(min=1e-5)[:, None])
            codebook._embed = None
            residual = residual - codebook.embed[codebook.quantize(residual)]


def _native(model) -> dict[str, np.ndarray]:
    """The weights as moshi names and orders them."""
    weights = {}
    for name, tensor in model.state_dict().items():
        for pattern, replacement in RENAMED:
            name = re.sub(pattern, replacement, name)
        value = tensor.numpy()
        if re.search("[qk]_proj", name):  # halves of each head to neighbouring pairs
            value = value.reshape(8, 2, 32, 512).swapaxes(1, 2).reshape(512, 512)
        weights[name] = np.ascontiguousarray(value)
    for name in [name for name in weights if "q_proj" in name]:
        parts = [weights.pop(name.replace("q_proj", f"{part}_proj")) for part in "qkv"]
        weights[name.replace("q_proj.weight", "in_proj_weight")] = np.concatenate(parts)
    return weights


def _noise(length, seed):
    return signals.noise(24000, length, seed=seed).samples


def _padded(samples):
    return torch.from_numpy(np.pad(samples, (0, -len(samples) % FRAME)))[None, None]


def _encode(reference, samples):
    with torch.inference_mode():
        return reference.encode(_padded(samples), num_quantizers=CODEBOOKS).audio_codes[0].numpy()


def _decode(reference, codes):
    with torch.inference_mode():
        return reference.decode(torch.from_numpy(codes)[None]).audio_values[0, 0].numpy()


def _assert_codes(encoded, expected):
    """Equal; after another choice of two entries that are as good as equally far, the later codes are free."""
    assert encoded["codes"].shape == expected.shape
    tied = encoded["distances"][..., 1] / encoded["distances"][..., 0] - 1 < TIE_MARGIN  # [K, T]
    free = (tied & (encoded["codes"] != expected)).cumsum(0) > 0
    assert free.mean() < 0.1
    np.testing.assert_array_equal(encoded["codes"][~free], expected[~free])


def _assert_sound(obtained, expected):
    assert obtained.shape == expected.shape
    assert obtained.dtype == np.float32
    assert np.abs(obtained - expected).max() <= 1e-5 * np.abs(expected).max()


def test_the_fixtures_codes_differ_from_frame_to_frame(port):
    codes = port.encode(_noise(20 * FRAME, seed=2))["codes"]
    assert all(len(np.unique(row)) > 10 for row in codes)


@pytest.mark.parametrize("length", [1, FRAME - 1, FRAME, FRAME + 1, 12 * FRAME + 7])
def test_every_length_gives_the_references_codes_and_sound(port, reference, length):
    samples = _noise(length, seed=length)
    encoded = port.encode(samples)
    assert encoded["codes"].dtype == np.int64
    assert encoded["codes"].shape == (CODEBOOKS, -(-length // FRAME))
    assert encoded["latents"].shape == (512, encoded["codes"].shape[1])
    expected = _encode(reference, samples)
    _assert_codes(encoded, expected)
    _assert_sound(port.decode(expected), _decode(reference, expected))


def test_the_first_candidate_is_the_code_and_none_is_nearer(port):
    encoded = port.encode(_noise(6 * FRAME, seed=3))
    assert encoded["candidates"].shape == encoded["distances"].shape == (CODEBOOKS, 6, 8)
    np.testing.assert_array_equal(encoded["candidates"][..., 0], encoded["codes"])
    assert (np.diff(encoded["distances"], axis=-1) >= 0).all()
    assert all(len(np.unique(near)) == 8 for near in encoded["candidates"].reshape(-1, 8))


def test_of_equally_near_entries_the_first_is_taken():
    entries = torch.zeros(30, 4)
    entries[:20] = torch.arange(20)[:, None] + 1.0
    indices, distances = mimi.nearest(torch.zeros(1, 1, 4), entries)
    assert indices[0, 0, 0] == 20
    assert sorted(indices[0, 0].tolist())[0] >= 20
    assert (distances == 0).all()


@pytest.mark.parametrize("name", ["1", "2", "7", "random"])
def test_a_stream_in_chunks_is_the_whole(port, name):
    samples = _noise(16 * FRAME, seed=4)
    encoded, frames = port.encode(samples), chunkings(16)[name]
    _assert_codes(encoded, port.encode_stream(samples, frames))
    _assert_sound(port.decode_stream(encoded["codes"], frames), port.decode(encoded["codes"]))


def test_the_size_of_the_blocks_does_not_matter(port, monkeypatch):
    samples = _noise(12 * FRAME, seed=5)
    whole, taps = port.encode(samples), port.taps(samples)
    sound = port.decode(whole["codes"])
    monkeypatch.setattr(mimi, "BLOCK_FRAMES", 5)
    _assert_codes(whole, port.encode(samples)["codes"])
    _assert_sound(port.decode(whole["codes"]), sound)
    for name, tap in port.taps(samples).items():
        assert tap.shape == taps[name].shape, name
        assert np.abs(tap - taps[name]).max() <= 1e-4 * np.abs(taps[name]).max(), name


def test_every_recording_starts_from_a_fresh_state(port):
    samples = _noise(3 * FRAME, seed=6)
    first = port.encode(samples)
    sound = port.decode(first["codes"])
    port.encode_stream(samples, [1, 2])
    port.decode_stream(first["codes"], [1, 2])
    np.testing.assert_array_equal(port.encode(samples)["latents"], first["latents"])
    np.testing.assert_array_equal(port.decode(first["codes"]), sound)


def test_a_batch_of_four_is_four_recordings(port):
    rows = np.stack([_noise(3 * FRAME + 5, seed=seed) for seed in range(4)])
    codes = port.encode_batch(rows)
    assert codes.shape == (4, CODEBOOKS, 4)
    for row, own in zip(rows, codes, strict=True):
        _assert_codes(port.encode(row), own)


def test_taps_are_those_of_the_references_layers(port, reference):
    samples = _noise(3 * FRAME, seed=7)
    seen = {}
    modules = {
        "encoder.0": reference.encoder.encoder_seanet.layers[0],
        "encoder.7": reference.encoder.encoder_seanet.layers[7],
        "encoder.14": reference.encoder.encoder_seanet.layers[14],
        "downsample": reference.encoder.downsample,
        "upsample": reference.decoder.upsample,
        "decoder.2": reference.decoder.decoder_seanet.layers[2],
        "decoder.12": reference.decoder.decoder_seanet.layers[12],
        "decoder.14": reference.decoder.decoder_seanet.layers[14],
    }
    handles = [
        module.register_forward_hook(lambda module, inputs, output, name=name: seen.update({name: output[0].numpy()}))
        for name, module in modules.items()
    ]
    taps = port.taps(samples)
    _encode(reference, samples)
    _decode(reference, port.encode(samples)["codes"])
    for handle in handles:
        handle.remove()
    layers = [f"{part}_transformer.{layer}" for part in ("encoder", "decoder") for layer in range(8)]
    assert {*layers, *modules, "quantized"} <= set(taps)
    assert len(taps) == 39
    for name, expected in seen.items():
        assert np.abs(taps[name] - expected).max() <= 1e-4 * np.abs(expected).max(), name


@pytest.mark.parametrize(("kind", "bound"), [(mimi.Bfloat16, 0.2), (mimi.Float16, 0.02)])
def test_half_precision_is_near_float32_and_not_it(port, folder, kind, bound):
    samples = _noise(4 * FRAME, seed=8)
    encoded, half = port.encode(samples), kind(checkpoint=folder)
    assert 0 < _relative(half.encode(samples)["latents"], encoded["latents"]) < bound
    assert 0 < _relative(half.decode(encoded["codes"]), port.decode(encoded["codes"])) < bound


def _relative(obtained, expected):
    assert obtained.dtype == np.float32
    return np.sqrt(((obtained - expected) ** 2).mean() / (expected**2).mean())


@pytest.mark.slow
def test_25_seconds_whole_and_in_chunks_are_the_references(port, reference):
    samples = _noise(313 * FRAME, seed=25)  # 25.04 s, 626 steps of attention
    encoded, expected = port.encode(samples), _encode(reference, samples)
    _assert_codes(encoded, expected)
    frames = chunkings(313)["7"]
    _assert_codes(encoded, port.encode_stream(samples, frames))
    sound = _decode(reference, expected)
    _assert_sound(port.decode(expected), sound)
    _assert_sound(port.decode_stream(expected, frames), sound)


@pytest.mark.slow
def test_attention_forgets_after_ten_seconds(port, monkeypatch):
    samples = _noise(140 * FRAME, seed=3)
    limited = port.encode(samples)["latents"]
    monkeypatch.setattr(mimi, "CONTEXT", 1 << 20)
    unlimited = port.encode(samples)["latents"]
    moved = np.abs(unlimited - limited).max(0)  # [T]
    assert moved[:125].max() == 0
    assert moved[125:].min() > 0


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
