"""The life of a golden: missing ones are written and fail, changed ones fail, freezing needs a reason and fails too."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.observations import read_observation, write_observation

ONLY_SOXR = ["--reference", "python-soxr", "--port", "python-soxr", "--no-report", "--json"]


def parity(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def run(golden: Path, runs: Path, *extra: object) -> tuple[int, dict[str, Any]]:
    done = parity("run", "resampler", *ONLY_SOXR, "--golden", golden, "--runs", runs, *extra)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def rows(verdict: dict[str, Any], **wanted: str) -> list[dict[str, Any]]:
    gates = verdict["families"][0]["gates"]
    return [row for row in gates if all(row[key] == value for key, value in wanted.items())]


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A golden folder filled by a first run."""
    golden = tmp_path_factory.mktemp("golden")
    status, verdict = run(golden, golden / "runs")
    assert status == 1
    (row,) = rows(verdict, gate="goldens")
    assert row["status"] == "fail"
    assert row["value"] == row["clips"] > 20
    assert "review and commit" in row["reason"]
    return golden


def test_what_was_written_passes_the_next_run(frozen: Path, tmp_path: Path) -> None:
    status, verdict = run(frozen, tmp_path)
    assert status == 0
    assert rows(verdict, gate="goldens")[0]["status"] == "pass"
    assert rows(verdict, reference="resampler/python-soxr@frozen", gate="max-abs")[0]["value"] == 0


def test_a_reference_that_moved_fails_against_its_golden(frozen: Path, tmp_path: Path) -> None:
    folder = frozen / "resampler" / "python-soxr" / "us-market"
    former = read_observation(folder)
    moved = {name: array + np.float32(3e-5) for name, array in former.tensors.items()}
    write_observation(folder, dataclasses.replace(former, tensors=moved))
    try:
        status, verdict = run(frozen, tmp_path)
    finally:
        write_observation(folder, former)
    assert status == 1
    (row,) = rows(verdict, reference="resampler/python-soxr@frozen", gate="max-abs", scope="clips")
    assert (row["status"], row["worst_clip"]) == ("fail", "us-market")
    assert row["value"] == pytest.approx(3e-5, rel=0.01)


def test_a_golden_of_another_clip_is_never_compared(frozen: Path, tmp_path: Path) -> None:
    folder = frozen / "resampler" / "python-soxr" / "us-market"
    former = read_observation(folder)
    write_observation(folder, dataclasses.replace(former, clip_digest="0" * 64))
    try:
        status, verdict = run(frozen, tmp_path)
    finally:
        write_observation(folder, former)
    assert status == 2
    (row,) = rows(verdict, reference="resampler/python-soxr@frozen", gate="max-abs", scope="clips")
    assert row["status"] == "error"
    assert "made from a clip of digest 000000000000" in row["reason"]


def test_a_port_is_judged_from_goldens_alone(frozen: Path, tmp_path: Path) -> None:
    done = parity(
        "run", "resampler", "--reference", "python-soxr", "--against", "frozen", "--golden", frozen, "--runs", tmp_path,
        "--no-report", "--json",
    )  # fmt: skip
    verdict = json.loads(done.stdout)
    names = [item["name"] for item in verdict["families"][0]["implementations"]]
    assert names == ["resampler/libsoxr"]
    assert rows(verdict, gate="max-abs")[0]["reference"] == "resampler/python-soxr@frozen"


def test_status_tells_missing_ones_and_orphans(frozen: Path) -> None:
    orphan = frozen / "resampler" / "python-soxr" / "nobody"
    write_observation(orphan, read_observation(orphan.with_name("us-market")))
    done = parity("golden", "status", "resampler", "--golden", frozen, "--json")
    states = {state["implementation"]: state for state in json.loads(done.stdout)}
    for path in orphan.iterdir():
        path.unlink()
    orphan.rmdir()
    assert done.returncode == 1
    assert states["resampler/python-soxr"]["orphans"] == ["nobody"]
    assert states["resampler/python-soxr"]["missing"] == []
    assert "us-market" in states["resampler/librosa"]["missing"]


def test_freezing_without_a_reason_changes_nothing(frozen: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in frozen.glob("resampler/**/*")}
    done = parity("golden", "freeze", "resampler", "--golden", frozen)
    assert done.returncode == 2
    assert "--reason" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in frozen.glob("resampler/**/*")} == before


@pytest.mark.slow
def test_freezing_with_a_reason_says_what_changes_and_fails(frozen: Path, tmp_path: Path) -> None:
    folder = frozen / "resampler" / "python-soxr" / "us-market"
    former = read_observation(folder)
    moved = {name: array + np.float32(3e-5) for name, array in former.tensors.items()}
    write_observation(folder, dataclasses.replace(former, tensors=moved))
    done = parity("golden", "freeze", "resampler", "--golden", frozen, "--runs", tmp_path, "--reason", "a new soxr")
    assert done.returncode == 1, done.stderr
    changed = next(line for line in done.stdout.splitlines() if "python-soxr" in line and "us-market" in line)
    assert "max_abs" in changed
    golden = read_observation(folder)
    assert golden.golden["reason"] == "a new soxr"
    assert golden.golden["cpu"]
    assert np.array_equal(golden.tensors["resampled_16000"], former.tensors["resampled_16000"])


def test_a_users_clips_are_judged_without_goldens_unless_only_goldens_are_asked_for(
    frozen: Path, tmp_path: Path, short_clips: Path
) -> None:
    status, verdict = run(frozen, tmp_path, "--clips", short_clips)
    assert status == 0
    assert rows(verdict, reference="resampler/python-soxr@frozen", scope="signals", gate="max-abs")
    assert not rows(verdict, reference="resampler/python-soxr@frozen", scope="clips", gate="max-abs")
    assert rows(verdict, reference="resampler/python-soxr", scope="clips", gate="max-abs")[0]["clips"] == 3
    done = parity(
        "run", "resampler", "--reference", "python-soxr", "--against", "frozen", "--golden", frozen, "--runs", tmp_path,
        "--clips", short_clips, "--no-report", "--json",
    )  # fmt: skip
    assert done.returncode == 2
    (row,) = rows(json.loads(done.stdout), scope="clips", gate="max-abs")
    assert row["status"] == "error"
