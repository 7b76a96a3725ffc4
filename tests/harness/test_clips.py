"""A clip set is read strictly; whatever is wrong with a file is said with its name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from harness.clips import load_clips, pcm_sha256, read_audio
from harness.errors import ParityError

SAMPLES = np.linspace(-0.5, 0.5, 800, dtype=np.float32)


def write(folder: Path, name: str = "a.wav", samples: np.ndarray = SAMPLES, subtype: str = "PCM_16") -> Path:
    soundfile.write(folder / name, samples, 16000, subtype=subtype)
    return folder / name


def test_a_folder_without_a_manifest_is_read_by_name(tmp_path: Path) -> None:
    write(tmp_path, "b.flac")
    write(tmp_path, "a.wav")
    (tmp_path / "notes.txt").write_text("not audio")
    assert [clip.id for clip in load_clips(tmp_path)] == ["a", "b"]


def test_stereo_keeps_its_channels(tmp_path: Path) -> None:
    write(tmp_path, samples=np.stack([SAMPLES, np.zeros_like(SAMPLES)], axis=1))
    (clip,) = load_clips(tmp_path)
    assert clip.samples.shape == (2, 800)
    assert np.array_equal(clip.mono(), clip.samples[0] / 2)


def manifest(folder: Path, **changes: object) -> None:
    samples, rate_hz = read_audio(folder / "a.wav")
    entry = {
        "id": "a",
        "file": "a.wav",
        "sample_rate": rate_hz,
        "channels": 1,
        "samples": len(samples),
        "pcm_sha256": pcm_sha256(samples),
        **changes,
    }
    lines = [f"{key} = {value!r}" for key, value in entry.items() if value is not None]
    (folder / "clips.toml").write_text("[[clip]]\n" + "\n".join(lines).replace("True", "true"))


def test_a_right_manifest_is_accepted(tmp_path: Path) -> None:
    write(tmp_path)
    manifest(tmp_path, text="a ramp", speaker="nobody")
    (clip,) = load_clips(tmp_path)
    assert (clip.text, clip.speaker, clip.scope) == ("a ramp", "nobody", "clips")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pcm_sha256": "0" * 64}, "pcm_sha256 is"),
        ({"sample_rate": 8000}, "sample_rate is 16000"),
        ({"samples": 7}, "samples is 800"),
        ({"channels": 2}, "channels is 1"),
        ({"file": None}, "without file"),
        ({"file": "../a.wav"}, "outside its folder"),
        ({"file": "gone.wav"}, "no such file"),
        ({"id": "../a"}, "cannot name a clip"),
        ({"surprise": 1}, "unknown keys"),
    ],
)
def test_a_wrong_manifest_is_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    write(tmp_path)
    manifest(tmp_path, **changes)
    with pytest.raises(ParityError, match=message) as caught:
        load_clips(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_one_flipped_bit_of_a_sample_is_seen(tmp_path: Path) -> None:
    path = write(tmp_path)
    manifest(tmp_path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ParityError, match="pcm_sha256"):
        load_clips(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "an empty file"), (b"not audio at all" * 10, "not readable as audio"), (b"RIFF", "not readable as audio")],
)
def test_a_file_that_is_not_audio_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(ParityError, match=message) as caught:
        load_clips(tmp_path)
    assert "a.wav" in str(caught.value)


def test_a_truncated_flac_is_refused(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 50000)
    path = write(tmp_path, "a.flac", noise)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ParityError, match=r"a\.flac: (truncated|not readable)"):
        load_clips(tmp_path)


def test_a_truncated_wav_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(ParityError, match=r"a\.wav: truncated: 400 bytes"):
        load_clips(tmp_path)


def test_nan_is_refused(tmp_path: Path) -> None:
    samples = SAMPLES.copy()
    samples[3] = np.nan
    write(tmp_path, samples=samples, subtype="FLOAT")
    with pytest.raises(ParityError, match="1 samples are NaN"):
        load_clips(tmp_path)


def test_no_samples_are_refused(tmp_path: Path) -> None:
    write(tmp_path, samples=SAMPLES[:0])
    with pytest.raises(ParityError, match="no samples"):
        load_clips(tmp_path)


def test_a_folder_without_audio_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="no audio"):
        load_clips(tmp_path)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="no such folder"):
        load_clips(tmp_path / "gone")


def test_two_clips_of_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.wav")
    write(tmp_path, "a.flac")
    with pytest.raises(ParityError, match="two clips are named a"):
        load_clips(tmp_path)


def test_the_digest_sees_rate_shape_and_samples(tmp_path: Path) -> None:
    write(tmp_path)
    (clip,) = load_clips(tmp_path)
    soundfile.write(tmp_path / "a.wav", SAMPLES, 8000, subtype="PCM_16")
    (other_rate,) = load_clips(tmp_path)
    assert clip.digest != other_rate.digest


@pytest.mark.parametrize(
    "text", ['clip = "x"', "clip = [1, 2]", "[clip]", "[[clips]]", "", '[[clip]]\nid="a"\nfile="a.wav"\nkind="sgnal"']
)
def test_a_malformed_manifest_is_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path)
    (tmp_path / "clips.toml").write_text(text)
    with pytest.raises(ParityError, match=r"clips\.toml"):
        load_clips(tmp_path)


@pytest.mark.parametrize("rate_hz", [1, 900000])
def test_an_implausible_rate_is_refused(tmp_path: Path, rate_hz: int) -> None:
    soundfile.write(tmp_path / "a.wav", SAMPLES, rate_hz)
    with pytest.raises(ParityError, match=f"a rate of {rate_hz} Hz"):
        load_clips(tmp_path)
