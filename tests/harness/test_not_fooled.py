"""False passes that other tools are known for; none of them passes here."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.clips import Clip
from harness.compare import compare_clip
from harness.family import Family, Implementation
from harness.gates import Gate, aggregate
from harness.metrics.tensors import NotComparable, compare_tensors
from harness.observations import Observation, write_observation
from harness.plan import Pair
from harness.runs import Run
from harness.tasks import load_task
from harness.verdicts import exit_status, judge_family, worst

RNG = np.random.default_rng(3)
SAMPLES = RNG.uniform(-0.5, 0.5, 1600).astype(np.float32)
CLIP = Clip("c", SAMPLES, 16000)
FAMILY = Family(
    name="resampler",
    description="",
    task="resampler",
    implementations=(
        Implementation("resampler/ref", "reference", "x:A"),
        Implementation("resampler/port", "port", "x:B"),
        Implementation("resampler/alias", "port", "x:A"),
    ),
)
GATES = [
    Gate("max-abs", "max_abs", "1", 1e-6, "worst", "clips", "why"),
    Gate("length", "length_error", "samples", 0.0, "worst", "clips", "why"),
]
RAN = {item.name: {"status": "ran", "reason": ""} for item in FAMILY.implementations}


def outputs(**changes: Any) -> dict[str, Any]:
    both = {"resampled_16000": SAMPLES, "resampled_24000": np.repeat(SAMPLES, 2)[:2400], **changes}
    return {name: array for name, array in both.items() if array is not None}


def statuses(tmp_path: Path, port: str = "resampler/port", clips: int = 1, **changes: Any) -> dict[str, str]:
    """The verdict by gate of one port whose outputs are changed from the reference's."""
    run = Run(tmp_path)
    pair = Pair("resampler/ref", port, "fresh")
    rows = []
    for number in range(clips):
        clip = dataclasses.replace(CLIP, id=f"c{number}")
        sides = ((pair.reference, outputs()), (port, outputs(**changes)))
        for side, tensors in sides:
            observation = Observation(side, clip.id, clip.digest, "", tensors)
            write_observation(run.observation(side, clip.id), observation)
        head = {"family": "resampler", **vars(pair), "scope": "clips", "clip": clip.id}
        rows += [{**head, **vars(row)} for row in compare_clip(run, load_task("resampler"), pair, clip)]
    judged = judge_family(FAMILY, [pair], GATES, rows, RAN, lambda _: "")
    return {row.gate: row.status for row in judged}


def test_equal_outputs_pass(tmp_path: Path) -> None:
    assert statuses(tmp_path) == {"max-abs": "pass", "length": "pass"}


def test_an_output_on_one_side_only(tmp_path: Path) -> None:
    assert set(statuses(tmp_path, resampled_24000=None).values()) == {"fail"}


def test_more_results_on_one_side(tmp_path: Path) -> None:
    longer = np.concatenate([SAMPLES, np.zeros(1, np.float32)])
    assert statuses(tmp_path, resampled_16000=longer) == {"max-abs": "fail", "length": "fail"}


def test_zero_iterations(tmp_path: Path) -> None:
    assert set(statuses(tmp_path, clips=0).values()) == {"error"}
    assert exit_status([]) == 2
    assert worst([]) == "error"


def test_a_shuffled_tensor_with_equal_mean(tmp_path: Path) -> None:
    assert statuses(tmp_path, resampled_16000=RNG.permutation(SAMPLES))["max-abs"] == "fail"


@pytest.mark.parametrize("at", [0, 1, 799, 1599])
def test_every_element_counts_not_the_first_alone(tmp_path: Path, at: int) -> None:
    changed = SAMPLES.copy()
    changed[at] += 1e-3
    assert statuses(tmp_path, resampled_16000=changed)["max-abs"] == "fail"


def test_empty_outputs(tmp_path: Path) -> None:
    assert statuses(tmp_path, resampled_16000=SAMPLES[:0])["max-abs"] == "fail"


def test_failed_rows_do_not_leave_the_average() -> None:
    for aggregation in ("worst", "p95", "rate"):
        gate = Gate("g", "m", "1", 1.0, aggregation, "clips", "why", clip_limit=1.0)  # type: ignore[arg-type]
        assert not aggregate(gate, [0.0] * 99 + [math.nan], [str(at) for at in range(100)]) <= gate.limit


def test_an_error_of_nan_is_not_small() -> None:
    nan = np.array([np.nan], dtype=np.float32)
    assert not compare_tensors(nan, nan).max_abs <= 1e9
    assert not compare_tensors(np.zeros(1, np.float32), nan).max_abs <= 1e9


def test_other_shapes_are_not_broadcast() -> None:
    with pytest.raises(NotComparable, match="shape"):
        compare_tensors(np.zeros((3, 1), np.float32), np.zeros((3, 4), np.float32))


def test_one_object_under_two_names_is_not_a_comparison(tmp_path: Path) -> None:
    assert set(statuses(tmp_path, port="resampler/alias").values()) == {"not-comparable"}


def test_a_port_that_is_the_reference_does_not_pass_a_run(tmp_path: Path, short_clips: Path) -> None:
    (tmp_path / "parity.toml").write_text(
        '[[implementation]]\nname = "resampler/mine"\nrole = "port"\nrunner = "python"\n'
        'factory = "references.resampler:PythonSoxr"\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", "run", "resampler", "--reference", "python-soxr", "--port", "mine",
         "--against", "fresh", "--clips", str(short_clips), "--runs", str(tmp_path), "--no-report", "--json",
         "--config", str(tmp_path / "parity.toml")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    (family,) = json.loads(done.stdout)["families"]
    mine = next(item for item in family["implementations"] if item["name"] == "resampler/mine")
    assert mine["status"] == "not-comparable"
    assert "with itself" in mine["reason"]
