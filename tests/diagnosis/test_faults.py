"""Faults are caught or reported as survived; what must not matter and does is a false alarm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness import signals as test_signals
from harness.console import PlainListener
from harness.diagnosis import console, faults, floor, prove
from harness.errors import ParityError
from harness.families import load_families
from harness.family import Family, Fault, Replacement, Variation
from harness.pipeline import GOLDEN
from harness.runs import Run
from harness.tasks import resampler
from tests.diagnosis.rejudging import assess_again, without_gate

GATES = GOLDEN / "gates"
PORT = "resampler/libsoxr"
SAME = Fault("same", "nothing is changed", PORT, "nowhere", Replacement("ports.resampler:RECIPE", value=4))
MATTERS = Variation("matters", "another recipe", (PORT,), change=Replacement("ports.resampler:RECIPE", value=1))
LISTENER = PlainListener(Console(stderr=True))


def small(*names: str, more: tuple[Fault, ...] = (), variations: tuple[Variation, ...] = ()) -> Family:
    """The resampler without librosa, which takes seconds to import, and with only these faults."""
    (family,) = load_families(["resampler"])
    kept = tuple(item for item in family.implementations if item.name != "resampler/librosa")
    chosen = tuple(fault for fault in family.faults if fault.name in names)
    return replace(family, implementations=kept, faults=(*chosen, *more), variations=variations)


@pytest.fixture(scope="module")
def few_signals() -> Iterator[None]:
    """Three test signals instead of seventy."""
    few = [test_signals.sine(24000), test_signals.impulse(24000), test_signals.noise(44100, 147, seed=1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resampler, "signals", lambda: few)
        yield


FAMILY = small(
    "lq-instead-of-hq",
    "exact-rational-ceil",
    "handle-per-block",
    "channels-swapped",
    more=(SAME,),
    variations=(Variation("ulp-up", "one representable number", ulp=1), MATTERS),
)


@pytest.fixture(scope="module")
def content(few_signals: None, short_clips: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return faults.prove(FAMILY, LISTENER, tmp_path_factory.mktemp("runs"), short_clips, GATES)


def of(content: dict[str, Any], fault: str) -> dict[str, Any]:
    return next(item for item in content["faults"] if item["fault"] == fault)


def test_a_fault_is_caught_by_its_gates_with_effect_and_margin(content: dict[str, Any]) -> None:
    fault = of(content, "lq-instead-of-hq")
    assert {"max-abs", "passband-ripple"} <= set(fault["caught_by"])
    assert fault["strongest_gate"] == "max-abs"
    assert fault["margin"] == pytest.approx(fault["effect"] / 1e-6)
    assert fault["margin"] > 1e3


def test_a_limit_of_zero_has_no_margin(content: dict[str, Any]) -> None:
    fault = of(content, "exact-rational-ceil")
    assert (fault["strongest_gate"], fault["effect"], fault["margin"]) == ("length", 1.0, None)


def test_a_fault_says_on_which_clips_it_shows(content: dict[str, Any]) -> None:
    assert of(content, "channels-swapped")["clips"] == ["three"]
    assert "made-noise-44100-147" in of(content, "exact-rational-ceil")["clips"]
    assert len(of(content, "exact-rational-ceil")["clips"]) < of(content, "exact-rational-ceil")["all_clips"]


def test_a_fault_that_does_nothing_survives(content: dict[str, Any]) -> None:
    assert content["survived"] == ["same"]
    assert of(content, "same")["caught_by"] == of(content, "same")["clips"] == []
    assert faults.exit_status({**content, "false_alarms": []}) == 1


def test_a_variation_that_matters_is_a_false_alarm(content: dict[str, Any]) -> None:
    assert {alarm["variation"] for alarm in content["false_alarms"]} == {"matters"}
    assert {alarm["port"] for alarm in content["false_alarms"]} == {PORT}
    assert "max-abs" in {alarm["gate"] for alarm in content["false_alarms"]}
    assert content["variations"] == ["plain", "ulp-up", "matters"]
    assert faults.exit_status({**content, "survived": []}) == 1


def test_status_0_needs_everything_judged(content: dict[str, Any]) -> None:
    clean = {**content, "survived": [], "false_alarms": []}
    assert faults.exit_status(clean) == 0
    assert faults.exit_status({**clean, "unjudged": [{"name": "x", "gate": "", "reason": "not installed"}]}) == 2


def test_gates_that_no_fault_trips_are_unproven(content: dict[str, Any]) -> None:
    assert {"dtype", "identity", "speech-level"} <= set(content["unproven_gates"])
    assert not {"length", "max-abs", "stream"} & set(content["unproven_gates"])
    assert "stream" not in content["redundant_gates"]


def test_without_its_only_gate_a_fault_survives(content: dict[str, Any], tmp_path: Path) -> None:
    again = assess_again(FAMILY, Run(Path(content["run"])), without_gate("stream", "resampler", tmp_path))
    assert again["survived"] == ["handle-per-block", "same"]


def test_the_table_names_every_fault_and_finding(content: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    console.print_faults(content)
    shown = capsys.readouterr().out
    for text in ("lq-instead-of-hq", "survived: same", "∞", "unproven gates: dtype", "4 of 5 faults caught"):
        assert text in shown
    assert f"false alarm: {PORT} under matters: max-abs" in shown


def test_one_run_proves_what_two_prove(
    few_signals: None, short_clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def without_run(found: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in found.items() if key != "run"}

    both = prove.prove(FAMILY, LISTENER, tmp_path, short_clips, GATES)
    for name, alone in (("faults", faults.prove), ("floor", floor.measure)):
        assert without_run(both[name]) == without_run(alone(FAMILY, LISTENER, tmp_path, short_clips, GATES)), name
    assert {path.name for path in Path(both["run"]).glob("*.json")} >= {"faults.json", "floor.json"}
    assert prove.exit_status(both) == 1
    clean = {
        "faults": {**both["faults"], "survived": [], "false_alarms": []},
        "floor": {"gates": [], "unjudged": ["x"]},
    }
    assert prove.exit_status(clean) == 2
    console.print_proofs(both)
    assert "faults and gates of resampler" in (printed := capsys.readouterr().out)
    assert "floors and limits of resampler" in printed


def test_a_port_that_does_not_run_is_not_judged(few_signals: None, short_clips: Path, tmp_path: Path) -> None:
    family = small("lq-instead-of-hq")
    *references, port = family.implementations
    absent = replace(port, packages=("no-such-package",))
    family = replace(family, implementations=(*references, absent))
    content = faults.prove(family, LISTENER, tmp_path, short_clips, GATES)
    assert content["survived"] == content["false_alarms"] == []
    assert {item["name"] for item in content["unjudged"]} == {"lq-instead-of-hq", PORT}
    assert all("no-such-package" in item["reason"] for item in content["unjudged"])
    assert faults.exit_status(content) == 2


def test_a_family_without_faults_proves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="declares no faults"):
        faults.prove(small(), LISTENER, tmp_path, None, GATES)
