"""The task `codec`: what it runs on which clip, and what its comparison says of a port that differs in one way."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness import signals as test_signals
from harness.clips import Clip
from harness.metrics.tensors import NotComparable
from harness.observations import Observation
from harness.tasks import codec

CODEBOOKS, FRAMES = 4, 10
SAMPLES = FRAMES * codec.FRAME_SAMPLES


def recorded(scope="clips"):
    return Clip("c", np.zeros(SAMPLES, np.float32), codec.RATE_HZ, scope)


def tensors():
    """What a reference gives: entries of 8 candidates, at distances 1.0, 1.1, … 1.7."""
    random = np.random.default_rng(0)
    near = np.stack([random.permutation(2048)[:8] for _ in range(CODEBOOKS * FRAMES)]).reshape(CODEBOOKS, FRAMES, 8)
    waveform = random.uniform(-0.5, 0.5, SAMPLES).astype(np.float32)
    return {
        "codes": near[..., 0].astype(np.int64),
        "candidates": near.astype(np.int16),
        "distances": np.broadcast_to(1 + np.arange(8) / 10, near.shape).astype(np.float32),
        "latents": random.normal(size=(512, FRAMES)).astype(np.float32),
        "waveform": waveform,
        "given/waveform": waveform,
    }


def observation(taps=(), **changes):
    """An observation with some tensors exchanged, and those left out that are None."""
    kept = {name: array for name, array in {**tensors(), **changes}.items() if array is not None}
    return Observation("mimi/x", "c", "d", "", kept, taps=taps)


def rows(port, reference=None, scope="clips"):
    """Rows by (metric, place)."""
    found = codec.compare(reference or observation(), port, recorded(scope))
    return {(row.metric, row.place): row for row in found}


def own_ways():
    """The tensors of a port that streams, runs a batch and runs again, all as its whole."""
    base = tensors()
    streams = dict.fromkeys(("stream_codes/1", "stream_codes/7", "again_codes"), base["codes"])
    alone = {f"row_{name}": np.stack([base[name]] * 4) for name in ("codes", "candidates", "distances")}
    return {**streams, "stream_waveform/1": base["waveform"], **alone, "batch_codes": alone["row_codes"]}


class Recorder:
    """A codec whose codes are the sample sums of each frame, and which notes what it was asked."""

    version = "1"

    def __init__(self):
        self.asked = []

    def encode(self, samples):
        self.asked.append("encode")
        frames = np.pad(samples, (0, -len(samples) % codec.FRAME_SAMPLES)).reshape(-1, codec.FRAME_SAMPLES)
        return {"codes": np.rint(1000 * np.abs(frames.sum(axis=1)))[None].astype(np.int64)}

    def decode(self, codes):
        return np.repeat(codes[0], codec.FRAME_SAMPLES).astype(np.float32)


class Streaming(Recorder):
    def encode_stream(self, samples, frames):
        self.asked.append(("stream", len(samples), tuple(frames)))
        return Recorder.encode(self, samples)["codes"]

    def decode_stream(self, codes, frames):
        return self.decode(codes)

    def encode_batch(self, samples):
        self.asked.append(("batch", samples.shape, len(np.unique(samples, axis=0))))
        return np.stack([Recorder.encode(self, row)["codes"] for row in samples])

    def taps(self, samples):
        self.asked.append(("taps", len(samples)))
        return {"encoder.0": samples[None]}


@pytest.mark.parametrize("scope", ["clips", "signals"])
def test_a_port_that_is_the_reference_has_no_error_anywhere(scope):
    port = observation(("one",), **own_ways(), **{"tap/one": np.ones((2, 3), np.float32)})
    found = rows(port, port, scope)
    assert {metric for metric, _ in found} >= set(codec.METRICS) - {
        "spectral_distance_db", "duration_ratio_error", "rms_ratio_octaves", "log_spectral_distance_db",
        "envelope_decorrelation",
    }  # fmt: skip
    assert all(row.value == 0 and row.state == "measured" for row in found.values())


def test_every_row_has_the_unit_of_its_metric_and_no_place_comes_twice():
    made = list(codec.compare(observation(), observation(**own_ways()), recorded()))
    assert all(row.unit == codec.METRICS[row.metric] for row in made)
    assert len({(row.metric, row.place) for row in made}) == len(made)


def test_one_wrong_entry_is_one_root_that_names_its_place_and_what_follows():
    base = tensors()
    wrong = base["codes"].copy()
    wrong[1, 3], wrong[3, 3] = base["candidates"][1, 3, 2], 2047
    found = rows(observation(codes=wrong))
    root = found["code_root_errors", "codes"]
    assert root.value == 1
    for said in ("frame 3 ", "codebook 1", f"entry {wrong[1, 3]}", f"expected {base['codes'][1, 3]}", "1 cascades"):
        assert said in root.detail
    assert found["code_margin", "codes"].value == pytest.approx(0.2, rel=1e-6)
    assert found["code_mismatch_rate", "all"].value == pytest.approx(2 / wrong.size)
    assert found["code_mismatch_rate", "codebook 1"].value == pytest.approx(1 / FRAMES)
    assert found["code_mismatch_rate", "codebook 0"].value == 0
    assert found["code_tie_rate", "codes"].value == 0


def test_an_entry_as_near_within_the_limit_is_a_tie_and_no_root():
    base = tensors()
    distances = base["distances"].astype(np.float64)
    distances[2, 5, 1] = 1 + codec.TIE_MARGIN / 2
    wrong = base["codes"].copy()
    wrong[2, 5] = base["candidates"][2, 5, 1]
    found = rows(observation(codes=wrong), observation(distances=distances))
    assert found["code_root_errors", "codes"].value == 0
    assert found["code_tie_rate", "codes"].value == pytest.approx(1 / wrong.size)


def test_late_codes_and_exchanged_codebooks_are_named():
    codes = tensors()["codes"]
    for late in (2, -2):
        row = rows(observation(codes=np.roll(codes, late, axis=1)))["code_late_frames", "codes"]
        assert row.value == 2
        assert f"late by {late} " in row.detail
    assert rows(observation(codes=codes[[0, 2, 1, 3]]))["codebooks_moved", "codes"].value == 2


@pytest.mark.parametrize("codes", [tensors()["codes"][:, :-1], tensors()["codes"].astype(np.float32)])
def test_codes_that_do_not_compare_are_invalid_and_say_why(codes):
    found = rows(observation(codes=codes))
    for metric in codec.CODE_METRICS:
        row = found[metric, "codes"]
        assert row.state == "invalid"
        assert math.isnan(row.value)
        assert row.detail


def test_frames_and_types_that_differ_are_counted():
    codes = tensors()["codes"]
    assert rows(observation(codes=codes[:, :-3]))["frame_count_error", "codes"].value == 3
    assert rows(observation(codes=codes.astype(np.int32)))["codes_dtype_mismatch", "codes"].value == 1


def test_fewer_codebooks_are_a_finding_and_more_are_not_comparable():
    codes = tensors()["codes"]
    found = rows(observation(codes=codes[:3]))
    assert found["codebook_count_error", "codes"].value == 1
    assert found["code_mismatch_rate", "all"].value == 0
    with pytest.raises(NotComparable, match=r"\[5, 10\].*\[4, 10\]"):
        rows(observation(codes=np.concatenate([codes, codes[:1]])))


@pytest.mark.parametrize("missing", ["codes", "waveform"])
def test_what_every_codec_gives_must_be_there(missing):
    with pytest.raises(NotComparable, match=f"gives no {missing}"):
        rows(observation(**{missing: None}))


def test_the_four_ways_tell_encoder_from_decoder():
    base = tensors()
    wrong = base["codes"].copy()
    wrong[1, 3] = base["candidates"][1, 3, 2]
    louder = (1.25 * base["waveform"]).astype(np.float32)
    encoder = rows(observation(codes=wrong, waveform=louder), observation(**{"given/waveform": louder}))
    decoder = rows(observation(waveform=louder, **{"given/waveform": louder}))
    for found, blamed, cleared in (
        (encoder, "port codes, reference decoder", "reference codes, port decoder"),
        (decoder, "reference codes, port decoder", "port codes, reference decoder"),
    ):
        assert found["four_way_nrmse", blamed].value == pytest.approx(0.25, rel=1e-5)
        assert found["four_way_nrmse", "port codes, port decoder"].value == pytest.approx(0.25, rel=1e-5)
        assert found["four_way_nrmse", cleared].value == 0
    assert encoder["decode_nrmse", "waveform"].value == 0
    assert decoder["decode_nrmse", "waveform"].value == pytest.approx(0.25, rel=1e-5)
    assert decoder["rms_ratio_octaves", "waveform"].value == pytest.approx(math.log2(1.25), rel=1e-5)


@pytest.mark.parametrize(
    ("tensor", "metric"),
    [
        ("stream_codes/7", "stream_root_errors"),
        ("again_codes", "again_mismatches"),
    ],
)
def test_another_way_that_gives_another_code_is_seen(tensor, metric):
    other = tensors()["codes"].copy()
    other[0, 9] += 1
    found = rows(observation(**{**own_ways(), tensor: other}))
    assert found[metric, tensor].value == 1
    assert found["code_root_errors", "codes"].value == 0
    shorter = rows(observation(**{**own_ways(), tensor: other[:, :-1]}))[metric, tensor]
    assert shorter.state == "invalid"
    assert math.isnan(shorter.value)


def test_every_row_of_a_batch_is_compared():
    ways = own_ways()
    for row in range(4):
        other = ways["batch_codes"].copy()
        other[row, 0, 9] += 1
        found = rows(observation(**{**ways, "batch_codes": other}), observation(**ways))
        wrong = [place for (metric, place), item in found.items() if metric == "batch_root_errors" and item.value]
        assert wrong == [f"batch_codes/{row}"]
    for shape in (np.s_[:3], np.s_[..., :-1]):
        unequal = rows(observation(**{**ways, "batch_codes": ways["batch_codes"][shape]}), observation(**ways))
        assert unequal["batch_root_errors", "batch_codes"].state == "invalid"


def test_a_row_of_a_batch_is_judged_by_the_references_distances_of_that_row():
    ways = own_ways()
    near = {**ways, "row_distances": ways["row_distances"].astype(np.float64)}
    near["row_distances"][2, 1, 3, 1] = 1 + codec.TIE_MARGIN / 2
    other = ways["batch_codes"].copy()
    other[2, 1, 3] = ways["row_candidates"][2, 1, 3, 1]
    port = observation(**{**ways, "batch_codes": other})
    assert rows(port, observation(**near))["batch_root_errors", "batch_codes/2"].value == 0
    assert rows(port, observation(**ways))["batch_root_errors", "batch_codes/2"].value == 1


def test_a_stream_that_differs_after_a_tie_of_the_whole_is_no_root():
    base = tensors()
    distances = base["distances"].astype(np.float64)
    distances[1, 5, 1] = 1 + codec.TIE_MARGIN / 2
    whole, stream = base["codes"].copy(), base["codes"].copy()
    whole[1, 5] = stream[1, 5] = base["candidates"][1, 5, 1]
    whole[2, 5], stream[2, 5] = 2046, 2045  # of a residual that the reference never had
    found = rows(observation(codes=whole, **{"stream_codes/1": stream}), observation(distances=distances))
    assert found["code_root_errors", "codes"].value == 0
    assert found["stream_root_errors", "stream_codes/1"].value == 0


def test_a_reference_without_distances_makes_every_difference_a_root():
    base = tensors()
    wrong = base["codes"].copy()
    wrong[1, 3] = base["candidates"][1, 3, 1]
    reference = observation(candidates=None, distances=None)
    found = rows(observation(codes=wrong, **{"stream_codes/1": base["codes"]}), reference)
    assert found["code_root_errors", "codes"].value == 1
    assert found["stream_root_errors", "stream_codes/1"].value == 0


def test_a_decoding_that_is_missing_has_a_row_that_says_why():
    wrong = tensors()["codes"].copy()
    wrong[0, 0] += 1
    found = rows(observation(codes=wrong, **{"given/waveform": None}))
    for metric in ("decode_nrmse", "sample_count_error"):
        assert found[metric, "waveform"].state == "invalid"
        assert "has not decoded" in found[metric, "waveform"].detail
    same = rows(observation(**{"given/waveform": None}))
    assert same["decode_nrmse", "waveform"].value == 0


@pytest.mark.parametrize("scope", ["clips", "signals"])
@pytest.mark.parametrize("shape", [(), (1, SAMPLES), (0,)])
def test_a_decoding_of_another_shape_leaves_the_other_rows(shape, scope):
    odd = np.zeros(shape, np.float32)
    found = rows(observation(**{**own_ways(), "given/waveform": odd}), observation(**own_ways()), scope)
    assert found["decode_nrmse", "waveform"].state == "invalid"
    assert found["sample_count_error", "waveform"].value == abs(odd.size - SAMPLES)
    assert found["stream_root_errors", "stream_codes/1"].value == 0
    assert found["batch_root_errors", "batch_codes/3"].value == 0


def test_a_stream_that_decodes_otherwise_is_seen():
    other = tensors()["waveform"].copy()
    other[codec.FRAME_SAMPLES] += 0.25
    found = rows(observation(**{**own_ways(), "stream_waveform/1": other}))
    assert found["stream_max_abs", "stream_waveform/1"].value == pytest.approx(0.25, rel=1e-5)


def test_taps_are_compared_by_name_and_missing_ones_counted():
    one, two = np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32)
    reference = observation(("one", "two"), **{"tap/one": one, "tap/two": two})
    found = rows(observation(("one",), **{"tap/one": 1.5 * one}), reference)
    assert found["taps_missing", "taps"].value == 1
    assert found["tap_nrmse", "tap/one"].value == pytest.approx(0.5)


@pytest.mark.parametrize("frames", [1, 2, 7, 8, 13, 60])
def test_every_chunking_takes_all_frames_and_no_empty_chunk(frames):
    made = codec.chunkings(frames)
    assert set(made) == {"1", "2", "7", "random"}
    assert all(sum(cut) == frames and min(cut) >= 1 for cut in made.values())
    assert made == codec.chunkings(frames)


@pytest.mark.parametrize(("frames", "streams"), [(7, False), (8, True), (60, True), (61, False)])
def test_signals_of_8_to_60_frames_are_streamed(frames, streams):
    implementation = Streaming()
    length = frames * codec.FRAME_SAMPLES - 5
    outputs = codec.observe(implementation, test_signals.noise(codec.RATE_HZ, length))
    assert ("stream_codes/random" in outputs.tensors) == ("batch_codes" in outputs.tensors) == streams
    asked = [item for item in implementation.asked if item[0] == "stream"]
    assert all(given == sum(cut) * codec.FRAME_SAMPLES for _, given, cut in asked)
    if streams:
        assert ("batch", (4, length), 4) in implementation.asked
        np.testing.assert_array_equal(outputs.tensors["batch_codes"], outputs.tensors["row_codes"])
    for name, tensor in outputs.tensors.items():
        if name.startswith(("stream_codes", "again")):
            np.testing.assert_array_equal(tensor, outputs.tensors["codes"], err_msg=name)


@pytest.mark.parametrize(("length", "tapped"), [(1, True), (7680, True), (7681, False)])
def test_only_short_signals_are_tapped(length, tapped):
    outputs = codec.observe(Streaming(), test_signals.noise(codec.RATE_HZ, length))
    assert bool(outputs.taps) == tapped


def test_recordings_run_once_and_what_is_not_offered_is_not_asked():
    implementation = Streaming()
    outputs = codec.observe(implementation, recorded())
    assert implementation.asked == ["encode"]
    assert set(outputs.tensors) == {"codes", "waveform"}
    assert set(outputs.timings) == {"encode", "decode"}
    plain = codec.observe(Recorder(), recorded("signals"))
    assert set(plain.tensors) == {"codes", "waveform", "again_codes", "row_codes"}


def test_every_way_that_is_offered_is_timed_on_recordings_alone():
    timed = codec.observe_timed(Streaming(), recorded()).timings
    assert set(timed) == {"encode", "decode", "encode_stream", "decode_stream", "peak_mb"}
    assert all(value > 0 for value in timed.values())
    assert set(codec.observe_timed(Recorder(), recorded()).timings) == {"encode", "decode", "peak_mb"}
    assert codec.observe_timed(Recorder(), recorded("signals")).timings == {}


def test_the_other_sides_codes_are_decoded():
    codes = np.array([[3, 5]])
    np.testing.assert_array_equal(
        codec.observe_given(Recorder(), {"codes": codes}).tensors["waveform"], Recorder().decode(codes)
    )


def test_recordings_become_one_channel_at_24_khz_and_say_so():
    random = np.random.default_rng(0)
    stereo = Clip("s", random.uniform(-0.5, 0.5, (2, 16000)).astype(np.float32), 16000)
    plain = Clip("p", stereo.samples[0], codec.RATE_HZ)
    made = codec.stimuli([stereo, plain])
    assert [(clip.samples.shape, clip.rate_hz) for clip in made] == [((24000,), 24000), ((16000,), 24000)]
    assert "mean of 2 channels" in made[0].origin
    assert "soxr" in made[0].origin
    np.testing.assert_array_equal(made[1].samples, plain.samples)


def test_signals_cover_odd_lengths_streams_taps_and_more_than_attention_sees():
    made = codec.signals()
    lengths = [len(clip.samples) for clip in made]
    assert {1, 1919, 1920, 1921, 5767} <= set(lengths)
    assert max(lengths) > 10 * codec.RATE_HZ
    assert any(codec.STREAMED_SAMPLES[0] <= length <= codec.STREAMED_SAMPLES[1] for length in lengths)
    assert len({clip.id for clip in made}) == len(made)
    assert all(clip.scope == "signals" and clip.rate_hz == codec.RATE_HZ for clip in made)
