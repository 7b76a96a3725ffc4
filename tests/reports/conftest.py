"""A small stored run, written by hand: a failing gate, a crashed port, a NaN, a damaged observation, hostile text."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.clips import Clip
from harness.compare import COLUMNS
from harness.observations import Observation, write_observation
from harness.runs import Run
from harness.verdicts import ORDER, exit_status, worst

HOSTILE = (
    """<script>document.documentElement.dataset.hacked = "1"</script>"><img src=x onerror='alert(1)'> | `@team` ]]>"""
)
HOSTILE_PORT = "silero-vad/<b onmouseover='alert(1)'>"
LONG = "very long " * 5000
RNG = np.random.default_rng(7)


def resampled(clip: Clip, target_hz: int) -> np.ndarray:
    """A stand-in for a resampler: linear interpolation, float32."""
    length = int(np.ceil(clip.samples.shape[-1] * target_hz / clip.rate_hz))
    if not length:
        return np.zeros((*clip.samples.shape[:-1], 0), np.float32)
    times = np.arange(length) * clip.rate_hz / target_hz
    channels = [np.interp(times, np.arange(clip.samples.shape[-1]), row) for row in np.atleast_2d(clip.samples)]
    made = np.asarray(channels, dtype=np.float32)
    return made[0] if clip.samples.ndim == 1 else made


def speech_like(seconds: float, rate_hz: int) -> np.ndarray:
    """Tones that come and go, float32 [N]."""
    times = np.arange(int(seconds * rate_hz)) / rate_hz
    gate = (np.sin(2 * np.pi * 0.7 * times) > -0.2) * (0.6 + 0.4 * np.sin(2 * np.pi * 5 * times))
    tones = sum(np.sin(2 * np.pi * 150 * k * times * (1 + 0.02 * np.sin(times))) / k for k in range(1, 9))
    return (0.15 * gate * tones + 0.001 * RNG.standard_normal(len(times))).astype(np.float32)


def resampler_clips() -> list[Clip]:
    spoken = [Clip(f"voice-{i:02}", speech_like(1.0 + 0.2 * i, 24000), 24000, text=f"sentence {i}") for i in range(8)]
    stereo = np.stack([speech_like(1.0, 44100), speech_like(1.0, 44100)])
    return [
        *spoken,
        Clip("stereo", stereo, 44100, text=HOSTILE),
        Clip("long", np.tile(speech_like(5.0, 16000), 5), 16000, scope="signals"),
        Clip("one-sample", np.ones(1, np.float32), 16000, scope="signals"),
        Clip("nothing", np.zeros(0, np.float32), 16000, scope="signals"),
    ]


def observation(name: str, clip: Clip, tensors: dict[str, np.ndarray], taps: tuple[str, ...] = ()) -> Observation:
    return Observation(name, clip.id, clip.digest, "1.0", tensors, taps=taps)


def row(family: str, pair: tuple[str, str], clip: Clip, metric: str, value: float, **fields: Any) -> dict[str, Any]:
    made = {
        "run": "run", "family": family, "reference": pair[0], "port": pair[1], "scope": clip.scope, "clip": clip.id,
        "kind": "frozen" if "@frozen" in pair[0] else "fresh", "metric": metric, "place": "p", "unit": "1",
        "value": value, "state": "measured", "detail": "",
    }  # fmt: skip
    return {**made, **fields}


def gate(name: str, pair: tuple[str, str], status: str, value: float | None, **fields: Any) -> dict[str, Any]:
    made = {
        "gate": name, "metric": name.replace("-", "_"), "unit": "1", "scope": "clips", "reference": pair[0],
        "port": pair[1], "value": value, "limit": 1e-6, "clips": 9, "status": status, "reason": "", "worst_clip": "",
        "worst_place": "",
    }  # fmt: skip
    return {**made, **fields}


def write_resampler(run: Run) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Observations, measurements and gates of the family resampler; its port libsoxr fails on two clips."""
    clips = resampler_clips()
    run.write_inputs("resampler", clips)
    pairs = [
        ("resampler/librosa", "resampler/librosa@repeat"),
        ("resampler/librosa", "resampler/libsoxr"),
        ("resampler/librosa@frozen", "resampler/libsoxr"),
    ]
    rows = []
    for number, clip in enumerate(clips):
        expected = {f"resampled_{rate}": resampled(clip, rate) for rate in (16000, 24000)}
        obtained = {name: np.array(values) for name, values in expected.items()}
        if clip.id in ("voice-03", "stereo"):
            where = slice(4000, 9000)
            noise = 0.02 * RNG.standard_normal(obtained["resampled_16000"][..., where].shape)
            obtained["resampled_16000"][..., where] += noise.astype(np.float32)
        elif clip.id == "voice-05":
            obtained["resampled_24000"] = obtained["resampled_24000"][:-1]
        elif clip.samples.shape[-1] > 1 and clip.id != "voice-07":
            obtained["resampled_24000"] += np.float32(1e-7)
        for name, tensors in (("librosa", expected), ("librosa@frozen", expected), ("librosa@repeat", expected)):
            write_observation(run.observation(f"resampler/{name}", clip.id), observation(name, clip, tensors))
        write_observation(run.observation("resampler/libsoxr", clip.id), observation("libsoxr", clip, obtained))
        for pair in pairs:
            repeated = pair[1].endswith("@repeat")
            failing = clip.id in ("voice-03", "stereo") and not repeated
            value = 0.0 if repeated else 0.07 if failing else 1e-7 * number
            rows.append(row("resampler", pair, clip, "max_abs", value, detail=HOSTILE))
            rows.append(row("resampler", pair, clip, "length_error", 0.0, unit="samples"))
            if clip.scope == "clips":
                nan = clip.id == "voice-05" and not repeated
                rows.append(row("resampler", pair, clip, "log_spectral_distance_db", float("nan") if nan else 0.001))
    gates = []
    for pair in pairs:
        good = pair[1].endswith("@repeat")
        reason = f"stereo: {HOSTILE}; reproduce with `parity run resampler --port libsoxr`"
        gates += [
            gate("max-abs", pair, "pass" if good else "fail", 0.0 if good else 0.07,
                 worst_clip="" if good else "stereo", reason="" if good else reason),
            gate("max-abs", pair, "pass", 0.0 if good else 9e-7, scope="signals"),
            gate("length-error", pair, "pass", 0.0, limit=0.0, unit="samples"),
            gate("log-spectral-distance-db", pair, "pass" if good else "fail", 0.001 if good else None, limit=0.01,
                 unit="dB", reason="" if good else "voice-05: not a number"),
        ]  # fmt: skip
    return rows, gates


def write_voice(run: Run) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The family silero-vad: a port that passes, one that crashed, one that gives damaged observations."""
    clips = [Clip(f"speech-{i}", speech_like(3.0, 16000), 16000, text="some words") for i in range(3)]
    run.write_inputs("silero-vad", clips)
    reference = "silero-vad/torchscript"
    numpy_pair, crashed, damaged = ((reference, f"silero-vad/{name}") for name in ("numpy", "crashing", "damaged"))
    rows = []
    for clip in clips:
        chunks = len(clip.samples) // 512 + 1
        loud = [np.abs(clip.samples[at * 512 : (at + 1) * 512]).max(initial=0.0) for at in range(chunks)]
        curve = np.convolve(np.minimum(loud, 0.2) * 5, np.ones(5) / 5, "same").astype(np.float32).clip(0, 1)
        taps = {"tap/spectrum": np.ones((chunks, 4), np.float32), "tap/lstm": np.ones((chunks, 4), np.float32)}
        other = (curve + 3e-6 * RNG.standard_normal(chunks)).astype(np.float32)
        names = ("spectrum", "lstm")
        write_observation(
            run.observation(reference, clip.id), observation(reference, clip, {"probability": curve, **taps}, names)
        )
        write_observation(
            run.observation("silero-vad/numpy", clip.id), observation("n", clip, {"probability": other, **taps}, names)
        )
        folder = run.observation("silero-vad/damaged", clip.id)
        folder.mkdir(parents=True)
        (folder / "observation.json").write_text("{", encoding="utf-8")
        rows += [
            row("silero-vad", numpy_pair, clip, "probability_max_abs", 9e-6),
            row("silero-vad", numpy_pair, clip, "tap_nrmse", 0.0, place="tap/spectrum"),
            row("silero-vad", numpy_pair, clip, "tap_nrmse", 3e-7, place="tap/lstm"),
            row("silero-vad", crashed, clip, "*", float("nan"), state="missing", detail="no observation of this clip"),
            row("silero-vad", damaged, clip, "*", float("nan"), state="invalid", detail="not valid JSON"),
        ]
    gates = [
        gate("probability-max-abs", numpy_pair, "pass", 9e-6, limit=1e-5, worst_clip="speech-1"),
        gate("probability-max-abs", crashed, "error", None, clips=0, reason=f"killed by SIGSEGV; {LONG}"),
        gate("probability-max-abs", damaged, "fail", None, clips=0, reason="not valid JSON"),
        gate("probability-max-abs", (reference, HOSTILE_PORT), "not-run", None, clips=0, reason=HOSTILE),
    ]
    return rows, gates


def outcome(name: str, role: str, status: str = "ran", **fields: Any) -> dict[str, Any]:
    made = {
        "name": name, "role": role, "status": status, "reason": "", "version": "1.0", "versions": {"soxr": "0.5"},
        "checkpoint_digest": "", "fault": "", "load_s": 0.1, "clips": 9, "failed": {}, "last_lines": [],
    }  # fmt: skip
    return {**made, **fields}


def family_verdict(name: str, outcomes: list[dict[str, Any]], gates: list[dict[str, Any]]) -> dict[str, Any]:
    implementations = []
    for item in outcomes:
        statuses = [row["status"] for row in gates if row["port"].partition("@")[0] == item["name"]] or ["pass"]
        keys = ("name", "role", "reason", "version", "fault", "clips", "load_s")
        implementations.append({**{key: item[key] for key in keys}, "status": worst(statuses)})
    status = worst([item["status"] for item in implementations])
    return {"family": name, "status": status, "implementations": implementations, "gates": gates}


def write_run(parent: Path) -> Run:
    """The run, judged and whole but for its reports."""
    import pandas as pd

    run = Run(parent / "20260101T000000Z-abcdef")
    run.folder.mkdir(parents=True)
    resampler_rows, resampler_gates = write_resampler(run)
    voice_rows, voice_gates = write_voice(run)
    table = pd.DataFrame(resampler_rows + voice_rows, columns=list(COLUMNS))
    table.to_parquet(run.measurements, index=False)
    outcomes = [
        outcome("resampler/librosa", "reference"),
        outcome("resampler/libsoxr", "port", fault="quality-low"),
        outcome("silero-vad/torchscript", "reference"),
        outcome("silero-vad/numpy", "port"),
        outcome("silero-vad/crashing", "port", "error", reason="killed by SIGSEGV", failed={"speech-0": HOSTILE},
                last_lines=[HOSTILE, LONG, "\x1b[31mred"]),
        outcome("silero-vad/damaged", "port", version=HOSTILE),
        outcome(HOSTILE_PORT, "port", "not-run", reason=HOSTILE),
    ]  # fmt: skip
    run.write_json("implementations.json", outcomes)
    plans = [
        {"family": "resampler", "task": "resampler", "faults": {"resampler/libsoxr": "quality-low"}},
        {"family": "silero-vad", "task": "voice-activity", "faults": {}},
        {"family": "empty", "task": "unheard-of", "faults": {}},
    ]
    run.write_json(
        "run.json",
        {"command": f"parity run {HOSTILE}", "against": "both", "clips": "my clips", "plans": plans},
    )
    run.write_json(
        "provenance.json",
        {
            "machine": {"cpu": "a processor", "cores": 2, "architecture": "x86_64", "system": "Linux 6"},
            "python": "3.11.2",
            "commit": "0123abc+",
            "environment": {"found": {"OMP_NUM_THREADS": "1"}, "removed_from_workers": ["LD_PRELOAD"]},
            "implementations": {item["name"]: item for item in outcomes},
            "clips": {"resampler": {"voice-00": "00ff"}, "empty": {}},
        },
    )
    families = [
        family_verdict("resampler", outcomes[:2], resampler_gates),
        family_verdict("silero-vad", outcomes[2:], voice_gates),
        {"family": "empty", "status": "error", "implementations": [], "gates": []},
    ]
    statuses = [family["status"] for family in families]
    counts = Counter(row["status"] for family in families for row in family["gates"])
    run.write_json(
        "verdict.json",
        {
            "run": run.id,
            "status": worst(statuses),
            "exit_status": exit_status(statuses),
            "counts": {status: counts[status] for status in ORDER},
            "families": families,
        },
    )
    return run


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The stored run with its reports; not to be changed."""
    from reports import write_reports

    run = write_run(tmp_path_factory.mktemp("runs"))
    write_reports(run)
    return run


@pytest.fixture
def stored(tmp_path: Path) -> Run:
    """A stored run of one's own, without reports."""
    return write_run(tmp_path)
