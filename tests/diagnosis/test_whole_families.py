"""The project's own gates, proven on whole families: nothing is patched or left out here."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from rich.console import Console

from harness.console import PlainListener
from harness.diagnosis import faults, floor
from harness.families import load_families
from harness.family import Family
from harness.pipeline import GOLDEN
from harness.runs import Run
from tests.diagnosis.rejudging import assess_again, without_gate

GATES = GOLDEN / "gates"
LISTENER = PlainListener(Console(stderr=True))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("family", load_families(["resampler", "silero-vad"]), ids=lambda family: family.name)
def test_every_fault_is_caught_and_every_gate_is_needed_or_said_to_be_redundant(family: Family, tmp_path: Path) -> None:
    content = faults.prove(family, LISTENER, tmp_path / "runs", None, GATES)
    assert content["unjudged"] == content["survived"] == content["false_alarms"] == content["unproven_gates"] == []
    assert all(fault["status"] == "caught" for fault in content["faults"])
    run = Run(Path(content["run"]))
    for gate in content["gates"]:
        again = assess_again(family, run, without_gate(gate, family.name, tmp_path / "gates"))
        assert bool(again["survived"]) != (gate in content["redundant_gates"]), gate
    shutil.rmtree(run.folder)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("family", load_families(["resampler", "silero-vad"]), ids=lambda family: family.name)
def test_every_limit_of_the_project_is_sound(family: Family, tmp_path: Path) -> None:
    content = floor.measure(family, LISTENER, tmp_path, None, GATES)
    assert content["unjudged"] == []
    assert {gate["gate"]: gate["state"] for gate in content["gates"] if gate["state"] != "sound"} == {}
    shutil.rmtree(content["run"])
