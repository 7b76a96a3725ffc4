"""A user's own port, declared only in a parity.toml, is judged by the same strict gates as ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WRONG = '''
import numpy as np
import soxr

class Silent:
    """Every chunk is silence."""
    def start(self, rate_hz): self.size = 512 if rate_hz == 16000 else 256
    def push(self, chunk): return 0.0
    def probabilities(self, samples, rate_hz):
        size = 512 if rate_hz == 16000 else 256
        return np.zeros(-(-len(samples) // size), np.float32)

class DeadStream:
    """Right at once, silent in a stream."""
    def resample(self, samples, rate_hz, target_rate_hz):
        count = int(np.ceil(samples.shape[-1] * (float(target_rate_hz) / rate_hz)))
        if rate_hz == target_rate_hz or samples.shape[-1] == 0:
            return samples
        made = soxr.resample(samples.T, rate_hz, target_rate_hz, quality="HQ").T
        return np.pad(made, [(0, 0)] * (made.ndim - 1) + [(0, max(0, count - made.shape[-1]))])[..., :count]
    def stream(self, blocks, rate_hz, target_rate_hz):
        return np.zeros_like(self.resample(np.concatenate(blocks, axis=-1), rate_hz, target_rate_hz))
'''


@pytest.mark.parametrize(
    ("family", "factory", "options", "gates"),
    [
        ("silero-vad", "Silent", [], {"probability"}),
        ("resampler", "DeadStream", ["--reference", "python-soxr"], {"stream"}),
    ],
)
def test_a_wrong_port_of_ones_own_fails(
    tmp_path: Path, family: str, factory: str, options: list[str], gates: set[str]
) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "parity.toml").write_text(
        f'[[implementation]]\nname = "{family}/mine"\nrole = "port"\nrunner = "python"\nfactory = "wrong:{factory}"\n'
    )
    command = [sys.executable, "-m", "harness.cli", "run", family, "--port", "mine", *options, "--against", "fresh"]
    command += ["--no-report", "--json", "--config", str(tmp_path / "parity.toml"), "--runs", str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    verdict: dict[str, Any] = json.loads(done.stdout)
    failing = {row["gate"] for row in verdict["families"][0]["gates"] if row["status"] == "fail"}
    assert failing >= gates
