"""Golden inputs: samples, rate, digest, and what is known of them.

Conventions: samples are float32 in −1..1, shape [N] for one channel and [C, N] for several; rates are in Hz. A set of
clips is a folder of WAV or FLAC files, with or without a `clips.toml` that states each file's rate, length and digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from harness.errors import ParityError
from harness.tomlfile import read_toml

Scope = Literal["clips", "signals"]
KINDS = ("speech", "signal")
RATES_HZ = (1000, 768000)  # below and above it is a wrong header, and hours of output to compare
AUDIO_SUFFIXES = frozenset({".wav", ".flac"})
KNOWN_KEYS = frozenset({
    "id", "file", "kind", "sample_rate", "channels", "samples", "pcm_sha256", "speaker", "text", "origin", "signal",
})  # fmt: skip


@dataclass(frozen=True)
class Clip:
    """One golden input.

    samples: float32, [N] or [C, N]. scope: `clips` for recordings, `signals` for test signals, whose `signal` says what
    they are (`{"kind": "sweep", "from_hz": 20.0, …}`). golden: whether frozen observations are kept for it.
    """

    id: str
    samples: NDArray[np.float32]
    rate_hz: int
    scope: Scope = "clips"
    text: str = ""
    speaker: str = ""
    origin: str = ""
    signal: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    golden: bool = False

    @property
    def digest(self) -> str:
        """sha256 over rate, shape and the little-endian float32 samples."""
        head = f"{self.rate_hz}:{self.samples.shape}:".encode()
        return hashlib.sha256(head + np.ascontiguousarray(self.samples, "<f4").tobytes()).hexdigest()

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return float(self.samples.shape[-1] / self.rate_hz)

    def mono(self) -> NDArray[np.float32]:
        """The samples as one channel, [N]; several channels are averaged."""
        return self.samples if self.samples.ndim == 1 else self.samples.mean(axis=0, dtype=np.float32)


def one_channel(clip: Clip, rate_hz: int) -> Clip:
    """The clip as one channel at a rate, converted by soxr HQ before any implementation sees it; `origin` says so."""
    samples = clip.mono()
    note = "" if clip.samples.ndim == 1 else f"mean of {len(clip.samples)} channels; "
    if clip.rate_hz != rate_hz:
        import soxr

        samples = soxr.resample(samples, clip.rate_hz, rate_hz, quality="HQ").astype(np.float32)
        note += f"{clip.rate_hz} to {rate_hz} Hz by soxr {soxr.__version__} HQ; "
    return replace(clip, samples=samples, rate_hz=rate_hz, origin=note + clip.origin)


def load_clips(folder: Path, golden: bool = False) -> list[Clip]:
    """Read a folder of clips, in the order of its `clips.toml`, else by file name.

    golden: whether frozen observations are kept for these clips.

    Raises ParityError when the folder or a file is missing, empty, not audio, holds NaN, or differs from what
    `clips.toml` states.
    """
    if not folder.is_dir():
        raise ParityError(folder, "no such folder", "a folder of WAV or FLAC files", "check --clips")
    manifest = folder / "clips.toml"
    entries = _read_manifest(manifest) if manifest.exists() else _list_files(folder)
    if not entries:
        raise ParityError(folder, "no audio in this folder", "at least one .wav or .flac file", "check --clips")
    clips = [replace(_load_clip(folder, entry), golden=golden) for entry in entries]
    refuse_duplicates(folder, (clip.id for clip in clips))
    return clips


def _list_files(folder: Path) -> list[dict[str, Any]]:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in AUDIO_SUFFIXES)
    return [{"id": path.stem, "file": path.name} for path in files]


def _read_manifest(path: Path) -> list[dict[str, Any]]:
    table = read_toml(path, "[[clip]] tables", "restore it")
    entries: Any = table.get("clip")
    if set(table) != {"clip"} or not isinstance(entries, list) or not all(isinstance(item, dict) for item in entries):
        raise ParityError(path, f"top-level keys {sorted(table)}", "[[clip]] tables and nothing else", "mend the file")
    for entry in entries:
        if entry.get("kind", "speech") not in KINDS or not isinstance(entry.get("signal", {}), dict):
            found = f"clip {entry.get('id')}: kind {entry.get('kind')!r}, signal {entry.get('signal')!r}"
            raise ParityError(path, found, f"kind one of {list(KINDS)}, signal a table", "mend the entry")
        for key in ("id", "file"):
            if not isinstance(entry.get(key), str):
                raise ParityError(path, f"a [[clip]] without {key}: {entry}", f"a string {key}", "add it")
        if unknown := set(entry) - KNOWN_KEYS:
            raise ParityError(path, f"clip {entry['id']} has unknown keys {sorted(unknown)}", f"{sorted(KNOWN_KEYS)}")
        if Path(entry["file"]).is_absolute() or ".." in Path(entry["file"]).parts:
            raise ParityError(path, f"clip {entry['id']} points outside its folder: {entry['file']}")
    return list(entries)


def _load_clip(folder: Path, entry: Mapping[str, Any]) -> Clip:
    path = folder / entry["file"]
    samples, rate_hz = read_audio(path)
    _check_statement(path, entry, samples, rate_hz)
    return Clip(
        id=entry["id"],
        samples=samples,
        rate_hz=rate_hz,
        scope="signals" if entry.get("kind") == "signal" else "clips",
        text=entry.get("text", ""),
        speaker=str(entry.get("speaker", "")),
        origin=entry.get("origin", ""),
        signal=entry.get("signal", {}),
        path=path,
    )


def read_audio(path: Path) -> tuple[NDArray[np.float32], int]:
    """Decode one audio file to float32 samples ([N] or [C, N]) and its rate in Hz.

    Raises ParityError when the file is missing, empty, truncated, not audio, of length zero, or holds NaN or infinity.
    """
    import soundfile

    if not path.is_file():
        raise ParityError(path, "no such file", "a WAV or FLAC file", "restore it or remove its entry")
    if path.stat().st_size == 0:
        raise ParityError(path, "an empty file", "a WAV or FLAC file", "restore it")
    try:
        with soundfile.SoundFile(path) as file:
            stated, rate_hz = file.frames, int(file.samplerate)
            data = file.read(dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, RuntimeError) as error:
        raise ParityError(path, f"not readable as audio ({error})", "a WAV or FLAC file", "re-export it") from error
    if not RATES_HZ[0] <= rate_hz <= RATES_HZ[1]:
        raise ParityError(path, f"a rate of {rate_hz} Hz", f"{RATES_HZ[0]} to {RATES_HZ[1]} Hz", "re-export it")
    if missing := _missing_wav_bytes(path):
        raise ParityError(path, f"truncated: {missing} bytes are missing", "the whole file", "copy it again")
    if stated == 0 or len(data) == 0:
        raise ParityError(path, "no samples in this file", "at least one sample", "re-export it")
    if len(data) != stated:
        raise ParityError(path, f"truncated: {len(data)} of {stated} samples", "the whole file", "copy it again")
    if bad := int((~np.isfinite(data)).sum()):
        raise ParityError(path, f"{bad} samples are NaN or infinite", "finite samples", "re-export it")
    samples = np.ascontiguousarray(data.T)
    return (samples[0] if len(samples) == 1 else samples), rate_hz


def _missing_wav_bytes(path: Path) -> int:
    """How many bytes a WAV file lacks of what its data chunk states; libsndfile shortens such a file silently."""
    with path.open("rb") as file:
        if file.read(4) != b"RIFF":
            return 0
        file.seek(12)
        while len(head := file.read(8)) == 8:
            size = int.from_bytes(head[4:], "little")
            if head[:4] == b"data":
                is_stream = size == 0xFFFFFFFF  # written to a pipe: the length was not known
                return 0 if is_stream else max(0, file.tell() + size - path.stat().st_size)
            file.seek(size + size % 2, 1)
    return 0


def pcm_sha256(samples: NDArray[np.float32]) -> str:
    """Sha256 over the samples as interleaved little-endian int16, as `clips.toml` states it."""
    pcm = np.rint(np.atleast_2d(samples).T * 32768.0).clip(-32768, 32767).astype("<i2")
    return hashlib.sha256(np.ascontiguousarray(pcm).tobytes()).hexdigest()


def _check_statement(path: Path, entry: Mapping[str, Any], samples: NDArray[np.float32], rate_hz: int) -> None:
    """Refuse a file that differs from its entry in `clips.toml`; what the entry does not state is not checked."""
    found = {
        "sample_rate": rate_hz,
        "channels": np.atleast_2d(samples).shape[0],
        "samples": samples.shape[-1],
        "pcm_sha256": pcm_sha256(samples),
    }
    for key, value in found.items():
        if key in entry and entry[key] != value:
            raise ParityError(path, f"{key} is {value}", f"{entry[key]} by clips.toml", "restore the file")


def refuse_duplicates(where: object, ids: Iterable[str]) -> None:
    """Raise ParityError when a name is used twice, or cannot name a folder."""
    seen: set[str] = set()
    for clip_id in ids:
        if clip_id in seen:
            raise ParityError(where, f"two clips are named {clip_id}", "one file per name", "rename one")
        if not clip_id or clip_id != Path(clip_id).name or clip_id.startswith("."):
            raise ParityError(where, f"{clip_id!r} cannot name a clip", "a plain file name", "rename it")
        seen.add(clip_id)
