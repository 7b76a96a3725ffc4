"""What a machine does to a run: no place to write, a full disk, an interrupt. Status 2, a clear word, nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

PARITY = [sys.executable, "-m", "harness.cli"]
QUICK = ["run", "resampler", "--reference", "python-soxr", "--port", "python-soxr", "--against", "fresh", "--no-report"]


def parity(*arguments: object, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
    command = [*PARITY, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


@pytest.mark.parametrize("place", ["a-file", "/proc/nowhere"])
def test_a_place_that_cannot_be_written(tmp_path: Path, short_clips: Path, place: str) -> None:
    (tmp_path / "a-file").write_text("in the way")
    done = parity(*QUICK, "--clips", short_clips, "--runs", tmp_path / place)
    assert done.returncode == 2
    assert "not writable" in done.stderr
    assert "--runs" in done.stderr
    assert (tmp_path / "a-file").read_text() == "in the way"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB; needs root."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this user may not mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk(small_disk: Path, short_clips: Path) -> None:
    (small_disk / "runs" / "earlier").mkdir(parents=True)
    (small_disk / "runs" / "earlier" / "verdict.json").write_text("{}")
    done = parity(*QUICK, "--clips", short_clips, "--runs", small_disk / "runs")
    assert done.returncode == 2, done.stderr
    assert "No space left" in done.stderr
    assert "free" in done.stderr
    assert (small_disk / "runs" / "earlier" / "verdict.json").read_text() == "{}"
    whole = [path for path in (small_disk / "runs").iterdir() if not path.name.startswith(".")]
    assert [path.name for path in whole] == ["earlier"]


def workers_of(parent: psutil.Process) -> list[psutil.Process]:
    return [child for child in parent.children(recursive=True) if "harness.runners.worker" in " ".join(child.cmdline())]


def wait_for(condition: object, timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def heeding_interrupts() -> None:
    """Undo what a shell does to its background jobs: a process born with SIGINT ignored never hears it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def running(tmp_path: Path, short_clips: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A run that has observed two clips and now hangs on the third."""
    here = Path(__file__).parent
    (tmp_path / "parity.toml").write_text(
        f'[[implementation]]\nname = "resampler/sleeps"\nrole = "port"\nrunner = "python"\n'
        f'factory = "bad_ports:Sleeps"\npython_path = ["{here}"]\n'
    )
    command = [*PARITY, "run", "resampler", "--reference", "python-soxr", "--port", "sleeps", "--against", "fresh"]
    command += ["--clips", short_clips, "--config", tmp_path / "parity.toml", "--runs", tmp_path / "runs"]
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heeding_interrupts,
    )
    try:
        wait_for(
            lambda: (
                len(list(tmp_path.glob("runs/*/observations/resampler/sleeps/*/observation.json"))) == 2
                or len(list(tmp_path.glob("runs/.*/observations/resampler/sleeps/*/observation.json"))) == 2
            )
        )
        yield process, tmp_path / "runs"
    finally:
        process.kill()
        process.communicate()


def test_an_interrupt_keeps_what_is_done_and_leaves_no_process(running: tuple[subprocess.Popen[str], Path]) -> None:
    process, runs = running
    workers = workers_of(psutil.Process(process.pid))
    assert workers
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "interrupted" in errors
    psutil.wait_procs(workers, timeout=10)
    assert not any(worker.is_running() for worker in workers)
    (run,) = [path for path in runs.iterdir() if not path.name.startswith(".")]
    assert len(list((run / "observations" / "resampler" / "sleeps").iterdir())) == 2
    outcomes = {item["name"]: item for item in json.loads((run / "implementations.json").read_text())}
    assert outcomes["resampler/python-soxr"]["status"] == "ran"
    assert outcomes["resampler/sleeps"]["status"] == "not-run"
    judged = parity("judge", run, "--json", "--config", runs.parent / "parity.toml")
    assert judged.returncode == 2
    assert json.loads(judged.stdout)["status"] != "pass"


@pytest.mark.skipif(sys.platform != "linux", reason="the death of the parent is a Linux signal")
def test_workers_die_with_a_killed_harness(running: tuple[subprocess.Popen[str], Path]) -> None:
    process, _ = running
    workers = workers_of(psutil.Process(process.pid))
    assert workers
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert alive == []
