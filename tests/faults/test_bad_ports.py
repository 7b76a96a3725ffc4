"""A run with every kind of misbehaving port: each has its own verdict, and none harms another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

HERE = Path(__file__).parent
PORTS = {
    "good": "Good",
    "exits": "Exits",
    "aborts": "Aborts",
    "segfaults": "Segfaults",
    "sleeps": "Sleeps",
    "raises": "Raises",
    "garbage": "Garbage",
    "wrong-shape": "WrongShape",
    "wrong-dtype": "WrongDtype",
    "wrong-length": "WrongLength",
    "nothing": "Nothing",
    "nan": "NotANumber",
    "does-not-load": "DoesNotLoad",
    "not-installed": "NotInstalled",
    "loads-forever": "LoadsForever",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, short_clips: Path) -> dict[str, Any]:
    """The verdict of one run of all of them against python-soxr."""
    folder = tmp_path_factory.mktemp("bad-ports")
    tables = [
        f'[[implementation]]\nname = "resampler/{name}"\nrole = "port"\nrunner = "python"\n'
        f'factory = "bad_ports:{factory}"\npython_path = ["{HERE}"]\nremedy = "pip install it"\n'
        "timeout_s = 5\nload_timeout_s = 5\n"
        for name, factory in PORTS.items()
    ]
    (folder / "parity.toml").write_text("\n".join(tables))
    ports = [option for name in PORTS for option in ("--port", name)]
    command = [sys.executable, "-m", "harness.cli", "run", "resampler", "--reference", "python-soxr", *ports]
    command += ["--against", "fresh", "--clips", str(short_clips), "--json", "--runs", str(folder / "runs")]
    done = subprocess.run(
        [*command, "--config", str(folder / "parity.toml")], capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 1, done.stderr[-3000:]
    verdict: dict[str, Any] = json.loads(done.stdout)
    verdict["stderr"] = done.stderr
    verdict["folder"] = folder / "runs" / verdict["run"]
    return verdict


def implementation(run: dict[str, Any], name: str) -> dict[str, Any]:
    (family,) = run["families"]
    return next(item for item in family["implementations"] if item["name"] == f"resampler/{name}")


def failing_gates(run: dict[str, Any], name: str) -> dict[str, str]:
    (family,) = run["families"]
    rows = [row for row in family["gates"] if row["port"] == f"resampler/{name}" and row["status"] != "pass"]
    return {row["gate"]: row["reason"] for row in rows}


def test_the_others_go_on(run: dict[str, Any]) -> None:
    assert implementation(run, "good")["status"] == "pass"
    assert implementation(run, "python-soxr")["status"] == "pass"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("exits", "exited with code 7"),
        ("exits", "about to leave"),
        ("aborts", "killed by SIGABRT"),
        ("segfaults", "killed by SIGSEGV"),
        ("sleeps", "no answer within 5 s on clip"),
        ("raises", "RuntimeError: no kernel for this shape"),
        ("does-not-load", "did not load: RuntimeError: bad weights"),
        ("loads-forever", "no answer within 5 s while loading"),
    ],
)
def test_what_ended_it_is_said(run: dict[str, Any], name: str, reason: str) -> None:
    item = implementation(run, name)
    assert item["status"] == "error"
    assert reason in item["reason"]


def test_what_is_not_installed_did_not_run_and_says_how_to_install(run: dict[str, Any]) -> None:
    item = implementation(run, "not-installed")
    assert item["status"] == "not-run"
    assert "a_package_that_is_not_there" in item["reason"]
    assert "pip install it" in item["reason"]


def test_results_before_a_crash_are_kept(run: dict[str, Any]) -> None:
    for name in ("exits", "aborts", "segfaults", "sleeps"):
        assert len(list((run["folder"] / "observations" / "resampler" / name).iterdir())) == 2
        assert implementation(run, name)["clips"] == 2


def test_an_exception_costs_only_its_clip(run: dict[str, Any]) -> None:
    (family,) = run["families"]
    clips = implementation(run, "good")["clips"]
    assert implementation(run, "raises")["clips"] == clips - 2
    assert all(row["status"] != "pass" for row in family["gates"] if row["port"] == "resampler/raises")


def test_garbage_on_the_output_harms_nothing(run: dict[str, Any]) -> None:
    assert implementation(run, "garbage")["status"] == "pass"
    assert "garbage \x00" not in run["stderr"]


@pytest.mark.parametrize(
    ("name", "gate", "reason"),
    [
        ("wrong-shape", "max-abs", "shape"),
        ("wrong-dtype", "dtype", "float64"),
        ("wrong-length", "length", "reference"),
        ("nothing", "max-abs", "resampled_16000 is NoneType, not an array"),
        ("nan", "max-abs", "NaN"),
    ],
)
def test_a_wrong_answer_fails_the_gate_that_sees_it(run: dict[str, Any], name: str, gate: str, reason: str) -> None:
    assert implementation(run, name)["status"] == "fail"
    assert reason in failing_gates(run, name)[gate]


def test_no_process_is_left(run: dict[str, Any]) -> None:
    assert run["status"] == "fail"
    left = [
        process for process in psutil.process_iter(["cmdline", "ppid"])
        if "harness.runners.worker" in " ".join(process.info["cmdline"] or []) and process.info["ppid"] == 1
    ]  # fmt: skip
    assert left == []
