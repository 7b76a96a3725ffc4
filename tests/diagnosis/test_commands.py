"""The diagnosing commands as a user types them: JSON and nothing else on standard output, and the status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def parity(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_trace_names_tap_and_fault(tmp_path: Path) -> None:
    done = parity("trace", "silero-vad", "--port", "numpy", "--plant", "zero-padding", "--clip", "joe-ferry",
                  "--runs", tmp_path, "--json")  # fmt: skip
    assert done.returncode == 1, done.stderr
    content = json.loads(done.stdout)
    assert (content["family"], content["port"], content["clip"]) == ("silero-vad", "silero-vad/numpy", "joe-ferry")
    assert content["first_divergence"] == "spectrum"
    assert content["explanations"][0]["fault"] == "zero-padding"
    assert content["explanations"][0]["explained"] > 0.999
    statuses = {row["tap"]: row["status"] for row in content["taps"]}
    assert statuses["input"] == "agrees"
    assert statuses["probability"] == "inherited"


@pytest.mark.slow
def test_inject_blames_the_resampler(tmp_path: Path) -> None:
    done = parity("inject", "silero-vad", "--port", "numpy", "--plant", "kaiser-sinc", "--runs", tmp_path, "--json")
    assert done.returncode == 1, done.stderr
    content = json.loads(done.stdout)
    assert content["blamed"] == "resampler"
    assert {row["stage"]: row["status"] for row in content["stages"]} == {"resampler": "pass", "vad": "fail"}


@pytest.mark.slow
def test_inject_blames_nobody_without_a_fault(tmp_path: Path) -> None:
    done = parity("inject", "silero-vad", "--port", "numpy", "--runs", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["blamed"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["faults", "nothing"], "no such family"),
        (["floor", "resampler", "--write"], "--reason"),
        (["trace", "silero-vad", "--port", "torchscript"], "is a reference"),
        (["trace", "silero-vad", "--port", "numpy", "--clip", "nothing"], "nothing"),
        (["trace", "silero-vad", "--port", "numpy", "--plant", "kaiser-sinc"], "no fault kaiser-sinc"),
        (["inject", "resampler", "--port", "libsoxr"], "pipeline"),
    ],
)
def test_wrong_words(arguments: list[str], message: str) -> None:
    done = parity(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
