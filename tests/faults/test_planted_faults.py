"""Every declared fault, planted in the real port, makes a run end with status 1 and the right gates name it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.families import load_families

# What must see each fault; other gates may see it too.
CAUGHT_BY = {
    "lq-instead-of-hq": {"max-abs", "passband-ripple", "stopband", "speech-gate", "speech-frames", "speech-envelope"},
    "mq-instead-of-hq": {"max-abs", "passband-ripple", "stopband"},
    "kaiser-sinc": {"max-abs", "passband-ripple", "speech-gate", "speech-frames"},
    "linear-interpolation": {"max-abs", "stopband", "alias", "thd-n", "delay"},
    "resample-poly": {"max-abs", "stopband", "alias", "thd-n"},
    "exact-rational-ceil": {"length"},
    "own-length": {"length"},
    "no-flush": {"max-abs"},
    "one-sample-delay": {"max-abs", "delay"},
    "sqrt-ratio-scale": {"max-abs", "passband-ripple"},
    "handle-per-block": {"stream"},
    "int16-input": {"max-abs", "identity", "thd-n"},
    "int16-units": {"max-abs", "speech-level"},
    "float64-output": {"dtype"},
    "channels-swapped": {"max-abs"},
    "assumed-source-rate": {"length", "speech-duration"},
    "no-context": {"probability", "decisions", "taps"},
    "early-context": {"probability", "decisions", "taps"},
    "state-reset": {"probability", "decisions", "segments", "taps"},
    "symmetric-padding": {"probability", "decisions", "taps"},
    "zero-padding": {"probability", "taps"},
    "v5-weights": {"probability", "decisions", "segments"},
    "other-training": {"probability", "decisions", "taps"},
    "lstm-gate-order": {"probability", "decisions", "segments", "taps"},
    "power-spectrum": {"probability", "decisions", "segments", "taps"},
    "no-final-relu": {"probability", "decisions", "segments", "taps"},
    "int16-units-vad": {"probability", "decisions", "taps"},
    "last-chunk-dropped": {"length"},
    "half-weights": {"probability", "taps"},
    "float64-probability": {"dtype"},
    "stream-without-context": {"stream"},
    "tap-missing": {"taps-complete"},
    "no-context-onnx-half": {"probability", "decisions"},
    "half-level-ggml": {"probability-ggml", "decisions-ggml", "segments-ggml"},
}
FAULTS = [(family.name, fault) for family in load_families() for fault in family.faults]


def test_every_fault_has_its_gates_stated() -> None:
    assert sorted(fault.name for _, fault in FAULTS) == sorted(CAUGHT_BY)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "fault"), FAULTS, ids=[fault.name for _, fault in FAULTS])
def test_a_planted_fault_is_caught(family: str, fault: object, tmp_path: Path) -> None:
    light = ["--reference", "python-soxr"] if family == "resampler" else []
    name, implementation = fault.name, fault.implementation  # type: ignore[attr-defined]
    command = [sys.executable, "-m", "harness.cli", "run", family, *light, "--port", implementation, "--plant", name]
    command += ["--against", "fresh", "--no-report", "--json", "--runs", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    (verdict,) = json.loads(done.stdout)["families"]
    failing = {row["gate"] for row in verdict["gates"] if row["status"] == "fail"}
    assert failing >= CAUGHT_BY[name], failing
    assert all(row["port"] == implementation for row in verdict["gates"] if row["status"] != "pass")
    assert next(item for item in verdict["implementations"] if item["name"] == implementation)["fault"] == name
