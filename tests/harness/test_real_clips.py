"""The main job on twenty real utterances, where they lie beside the project: every implementation passes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_every_implementation_passes_on_real_speech(real_clips: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness.cli", "run", "resampler", "silero-vad", "--clips", str(real_clips)]
    done = subprocess.run(
        [*command, "--runs", str(tmp_path), "--json"], capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    verdict = json.loads(done.stdout)
    assert {item["status"] for family in verdict["families"] for item in family["implementations"]} == {"pass"}
    rows = [row for family in verdict["families"] for row in family["gates"] if row["scope"] == "clips"]
    measured = [row for row in rows if row["gate"] != "goldens"]
    assert {row["clips"] for row in measured} == {20}
    flips = [row["value"] for row in measured if row["metric"] == "decision_flips"]
    assert len(flips) >= 9
    assert set(flips) == {0.0}
