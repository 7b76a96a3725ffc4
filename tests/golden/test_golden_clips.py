"""The committed clips are what the project promises: voices, rates, lengths, signals, and guarded by their digests."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import soundfile

from harness import signals
from harness.clips import Clip, load_clips
from harness.errors import ParityError

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "clips"
STEP = 2.0**-15  # of 16 bits
RATES_HZ = {8000, 16000, 22050, 24000, 44100, 48000}


@pytest.fixture(scope="module")
def clips() -> dict[str, Clip]:
    return {clip.id: clip for clip in load_clips(FOLDER)}


@pytest.fixture(scope="module")
def speech(clips: dict[str, Clip]) -> dict[str, Clip]:
    return {clip.id: clip for clip in clips.values() if clip.scope == "clips"}


@pytest.fixture(scope="module")
def make() -> ModuleType:
    """The script; it is no module of a package, so it is loaded by its path."""
    spec = importlib.util.spec_from_file_location("golden_clips_make", FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up here
    spec.loader.exec_module(module)
    return module


def stated(clip: Clip) -> tuple[object, ...]:
    return clip.id, clip.scope, clip.digest, clip.text, clip.speaker, clip.origin, dict(clip.signal)


def pauses_s(clip: Clip) -> list[float]:
    """Lengths of the stretches, of 0.5 s and more, that stay 30 dB and more under the loudest 10 ms, edges left out."""
    frame = clip.rate_hz // 100
    whole = clip.mono()[: len(clip.mono()) // frame * frame].reshape(-1, frame)
    level = np.sqrt(np.mean(np.square(whole, dtype=np.float64), axis=1))
    loud = np.flatnonzero(level > level.max() * 10 ** (-30 / 20))
    return [float(gap) / 100 for gap in np.diff(loud) if gap >= 50]


def test_enough_speech_of_enough_voices(speech: dict[str, Clip]) -> None:
    assert len(speech) >= 12
    voices = {voice for clip in speech.values() for voice in clip.speaker.split(", ")}
    assert len(voices) >= 4
    assert "piper-joe" in voices
    assert len([voice for voice in voices if voice.startswith("espeak-")]) >= 3
    assert all(clip.text and clip.origin for clip in speech.values())


def test_every_rate_is_spoken(speech: dict[str, Clip]) -> None:
    rates = Counter(clip.rate_hz for clip in speech.values())
    assert set(rates) == RATES_HZ
    assert rates[16000] >= 3
    assert rates[24000] >= 2


def test_lengths(speech: dict[str, Clip]) -> None:
    durations = {clip.id: clip.duration_s for clip in speech.values()}
    assert not {name: length for name, length in durations.items() if not 2 <= length <= 6}
    assert sum(durations.values()) <= 45


def test_one_clip_is_stereo_and_its_channels_differ(speech: dict[str, Clip]) -> None:
    (clip,) = [clip for clip in speech.values() if clip.samples.ndim == 2]
    assert clip.samples.shape[0] == 2
    left, right = clip.samples.astype(np.float64)
    assert abs(np.corrcoef(left, right)[0, 1]) < 0.9
    assert len(clip.speaker.split(", ")) == 2


def test_some_speech_has_pauses(speech: dict[str, Clip]) -> None:
    assert len([clip for clip in speech.values() if pauses_s(clip)]) >= 4


def test_speech_is_loud_enough_and_not_clipped(speech: dict[str, Clip]) -> None:
    peaks = {name: float(np.abs(clip.samples).max()) for name, clip in speech.items()}
    assert not {name: peak for name, peak in peaks.items() if not 0.04 < peak < 1.0 - STEP}


def test_the_folder_is_small_and_holds_nothing_unlisted(clips: dict[str, Clip]) -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) <= 5e6
    assert {path.name for path in FOLDER.glob("*.flac")} == {f"{name}.flac" for name in clips}
    assert {soundfile.info(path).subtype for path in FOLDER.glob("*.flac")} == {"PCM_16"}


@pytest.mark.parametrize(
    "exact",
    [
        signals.log_sweep(48000),
        signals.sine(44100),
        signals.impulse(48000, amplitude=0.5),
        signals.step(24000),
        signals.silence(16000),
        signals.noise(16000, 16000),
        signals.noise(16000, 1),
        signals.noise(16000, 100),
    ],
    ids=lambda clip: clip.id,
)
def test_a_signal_is_the_exact_one_rounded_to_16_bits(exact: Clip, clips: dict[str, Clip]) -> None:
    stored = clips[exact.id]
    assert (stored.scope, stored.rate_hz, dict(stored.signal)) == ("signals", exact.rate_hz, dict(exact.signal))
    assert stored.samples.shape == exact.samples.shape
    assert float(np.abs(stored.samples.astype(np.float64) - exact.samples).max()) <= STEP / 2


def test_the_clipped_speech_stands_at_full_scale(clips: dict[str, Clip]) -> None:
    clip = clips["clipped-speech-16000"]
    assert (clip.scope, clip.rate_hz, clip.duration_s) == ("signals", 16000, 2.0)
    assert (clip.samples.min(), clip.samples.max()) == (-1.0, 1.0 - STEP)
    assert np.mean((clip.samples == -1.0) | (clip.samples == 1.0 - STEP)) > 0.05


def test_the_long_signal_is_speech_and_silence_of_25_s(clips: dict[str, Clip]) -> None:
    clip = clips["joined-speech-16000-25s"]
    assert (clip.scope, clip.rate_hz, clip.samples.shape) == ("signals", 16000, (25 * 16000,))
    position = 0
    for name in clip.signal["sources"]:
        source = clips[name].samples
        assert np.array_equal(clip.samples[position : position + len(source)], source)
        position += len(source)
        assert not clip.samples[position : position + clip.signal["gap_samples"]].any()
        position += clip.signal["gap_samples"]
    assert not clip.samples[position:].any()


def test_the_script_makes_the_same_signals(make: ModuleType, speech: dict[str, Clip], clips: dict[str, Clip]) -> None:
    stored = {clip.id: clip.digest for clip in clips.values() if clip.scope == "signals"}
    assert {clip.id: clip.digest for clip in make.make_signals(speech)} == stored


def test_the_script_speaks_what_the_manifest_states(make: ModuleType, speech: dict[str, Clip]) -> None:
    written = {recipe.id: (recipe.rate_hz, " ".join(part.text for part in recipe.parts)) for recipe in make.RECIPES}
    assert written == {clip.id: (clip.rate_hz, clip.text) for clip in speech.values()}


def test_what_the_script_writes_is_read_back(make: ModuleType, clips: dict[str, Clip], tmp_path: Path) -> None:
    make.write(tmp_path, list(clips.values()))
    assert [stated(clip) for clip in load_clips(tmp_path)] == [stated(clip) for clip in clips.values()]


def test_without_espeak_the_script_says_how_to_install_it(
    make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert make.main([str(tmp_path / "made")]) == 2
    assert "apt-get install espeak-ng" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_a_flipped_sample_stops_loading(tmp_path: Path) -> None:
    folder = tmp_path / "clips"
    shutil.copytree(FOLDER, folder)
    assert load_clips(folder)
    path = folder / "joe-ferry.flac"
    pcm, rate_hz = soundfile.read(path, dtype="int16")
    pcm[len(pcm) // 2] ^= 1
    soundfile.write(path, pcm, rate_hz, subtype="PCM_16")
    with pytest.raises(ParityError, match=r"joe-ferry\.flac: pcm_sha256 is"):
        load_clips(folder)
