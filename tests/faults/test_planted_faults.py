"""A fault planted from the command line ends a run with status 1, and only the port that has it is to blame."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN_CLIPS = Path(__file__).parents[2] / "golden/clips"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "port", "fault", "gate", "options"),
    [
        ("resampler", "libsoxr", "lq-instead-of-hq", "max-abs", ["--reference", "python-soxr"]),
        ("silero-vad", "numpy", "no-context", "probability", []),
        ("silero-vad", "onnx-half", "no-context-onnx-half", "decisions", []),
        ("silero-vad", "ggml", "half-level-ggml", "probability-ggml", []),
        ("mimi", "torch", "layer-norm-eps", "roots", ["--reference", "hf", "--clips", "CLIPS"]),
    ],
)
def test_a_planted_fault_is_caught(
    family: str, port: str, fault: str, gate: str, options: list[str], tmp_path: Path
) -> None:
    clips = tmp_path / "clips"
    clips.mkdir()
    (clips / "joe-ferry.flac").write_bytes((GOLDEN_CLIPS / "joe-ferry.flac").read_bytes())
    command = [sys.executable, "-m", "harness.cli", "run", family, "--port", port, "--plant", fault]
    command += [str(clips) if option == "CLIPS" else option for option in options]
    command += ["--against", "fresh", "--no-report", "--json", "--runs", str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    (verdict,) = json.loads(done.stdout)["families"]
    assert gate in {row["gate"] for row in verdict["gates"] if row["status"] == "fail"}
    assert all(row["port"] == f"{family}/{port}" for row in verdict["gates"] if row["status"] != "pass")
    (item,) = (item for item in verdict["implementations"] if item["name"] == f"{family}/{port}")
    assert item["fault"] == fault
