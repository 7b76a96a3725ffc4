"""`docs/metrics.md` names every metric there is, and the metrics need neither torch nor librosa."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from harness.tasks import load_task

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "metrics.md").read_text(encoding="utf-8")
KINDS = ("tensors", "resampling", "speech", "voice_activity", "timing")


@pytest.mark.parametrize("task", ["resampler", "voice-activity"])
def test_every_name_that_a_gate_may_use_has_its_line_and_unit(task):
    names = load_task(task).METRICS
    assert names
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    for name, unit in names.items():
        assert any(f"`{name}`" in line and unit in line.split("|")[2] for line in lines), f"{name} ({unit})"


@pytest.mark.parametrize("kind", KINDS)
def test_every_function_is_described(kind):
    module = importlib.import_module(f"harness.metrics.{kind}")
    functions = [
        name
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_") and name != "validate"
    ]
    assert functions
    for name in functions:
        assert f"{name}`" in PAGE, name


def test_metrics_import_nothing_heavy():
    imports = "; ".join(f"import harness.metrics.{kind}" for kind in KINDS)
    check = f"{imports}; import sys; print(sorted({{'torch', 'librosa', 'scipy.signal'}} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert found.stdout.strip() == "[]"
