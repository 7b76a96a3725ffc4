"""A limit lies between the floor and the smallest fault, or the floor says on which side it is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness import signals as test_signals
from harness.console import PlainListener
from harness.diagnosis import console, faults, floor, gates_text
from harness.errors import ParityError
from harness.families import load_families
from harness.family import Family, Replacement, Variation
from harness.gates import Gate, load_gates
from harness.pipeline import GOLDEN
from harness.runs import Run
from harness.tasks import load_task, resampler
from harness.verdicts import judge

GATES = GOLDEN / "gates"
LISTENER = PlainListener(Console(stderr=True))
KEPT = {"ulp-up", "float64-python-soxr", "blocks-python-soxr"}


def small() -> Family:
    """The resampler without librosa, which takes seconds to import, and with two faults."""
    (family,) = load_families(["resampler"])
    return replace(
        family,
        implementations=tuple(item for item in family.implementations if item.name != "resampler/librosa"),
        faults=tuple(fault for fault in family.faults if fault.name in ("lq-instead-of-hq", "mq-instead-of-hq")),
        variations=tuple(item for item in family.variations if item.name in KEPT),
    )


FAMILY = small()


@pytest.fixture(scope="module")
def content(short_clips: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    few = [test_signals.sine(24000), test_signals.impulse(24000)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resampler, "signals", lambda: few)
        yield floor.measure(FAMILY, LISTENER, tmp_path_factory.mktemp("runs"), short_clips, GATES)


@pytest.fixture
def gates(tmp_path: Path) -> Path:
    """A copy of the gates that may be changed."""
    shutil.copy(GATES / "resampler.toml", tmp_path)
    return tmp_path


def of(content: dict[str, Any], gate: str) -> dict[str, Any]:
    return next(item for item in content["gates"] if item["gate"] == gate)


def load(folder: Path) -> list[Gate]:
    return load_gates(folder, FAMILY, load_task(FAMILY.task).METRICS)


def with_limit(content: dict[str, Any], gate: str, limit: float) -> dict[str, Any]:
    """What the stored run says when one gate has another limit."""
    changed = [replace(item, limit=limit) if item.name == gate else item for item in load(GATES)]
    run = Run(Path(content["run"]))
    verdict = judge(run, {FAMILY.name: FAMILY}, {FAMILY.name: changed})
    return floor.assess(FAMILY, changed, verdict["families"][0]["gates"], run)


def test_a_limit_between_floor_and_fault_is_sound(content: dict[str, Any]) -> None:
    gate = of(content, "max-abs")
    assert 1e-9 < gate["floor"] < 1e-6 < gate["smallest_fault"]
    assert (gate["state"], gate["smallest_fault_name"]) == ("sound", "mq-instead-of-hq")
    assert gate["floor"] < gate["suggested"] < gate["smallest_fault"]
    assert gate["suggested"] == pytest.approx((gate["floor"] * gate["smallest_fault"]) ** 0.5, rel=0.05)


def test_the_floor_comes_from_the_worst_variation(content: dict[str, Any]) -> None:
    source = of(content, "max-abs")["floor_from"]
    assert source.startswith("resampler/python-soxr")
    assert source.partition("+")[2] in KEPT


def test_a_limit_below_the_floor_is_too_tight(content: dict[str, Any]) -> None:
    tight = with_limit(content, "max-abs", of(content, "max-abs")["floor"] * 0.99)
    assert of(tight, "max-abs")["state"] == "too tight"
    assert floor.exit_status(tight) == 1


def test_a_limit_at_the_floor_is_not_too_tight(content: dict[str, Any]) -> None:
    assert of(with_limit(content, "max-abs", of(content, "max-abs")["floor"]), "max-abs")["state"] == "sound"


def test_a_limit_that_no_fault_exceeds_is_blind(content: dict[str, Any]) -> None:
    blind = with_limit(content, "max-abs", 10.0)
    assert of(blind, "max-abs")["state"] == "blind"
    assert of(blind, "max-abs")["smallest_fault"] is None
    assert floor.exit_status(blind) == 1


def test_a_gate_that_catches_no_fault_is_blind(content: dict[str, Any]) -> None:
    assert {of(content, name)["state"] for name in ("length", "stream", "identity")} == {"blind"}


def test_an_input_moved_on_purpose_is_no_error_of_the_identity(content: dict[str, Any]) -> None:
    assert of(content, "identity")["floor"] == 0


def test_status_0_needs_every_limit_sound_and_everything_measured(content: dict[str, Any]) -> None:
    sound = {"gates": [of(content, "max-abs")], "unjudged": []}
    assert floor.exit_status(sound) == 0
    assert floor.exit_status({**sound, "unjudged": [{"name": "x", "gate": "", "reason": "absent"}]}) == 2


def test_a_reference_that_fails_under_a_variation_has_no_floor(short_clips: Path, tmp_path: Path) -> None:
    broken = Variation("broken", "", ("resampler/python-soxr",), change=Replacement("references.resampler:nothing", 1))
    family = replace(FAMILY, variations=(broken,), faults=FAMILY.faults[:1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resampler, "signals", lambda: [test_signals.sine(24000), test_signals.impulse(24000)])
        content = floor.measure(family, LISTENER, tmp_path, short_clips, GATES)
    assert [item["name"] for item in content["unjudged"]] == ["resampler/python-soxr+broken"]
    assert floor.exit_status({**content, "gates": []}) == 2


def test_the_separation_is_printed(content: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    gate = {"floor": 1.7e-6, "limit": 1e-5, "smallest_fault": 3e-2, "smallest_fault_name": "x"}
    assert console.separation(gate) == "floor 1.7e-06 | limit 1e-05 | smallest fault 0.03"
    console.print_floor(content)
    shown = capsys.readouterr().out
    assert console.separation(of(content, "max-abs")) in shown
    assert "length blind" in shown


def test_written_limits_are_read_again_with_their_evidence(content: dict[str, Any], gates: Path) -> None:
    before = (gates / "resampler.toml").read_text()
    lines = floor.write_limits(content, gates, 'measured on "two" machines')
    assert len(lines) == len(content["gates"])
    loaded = {gate.name: gate for gate in load(gates)}
    measured = of(content, "max-abs")
    assert loaded["max-abs"].limit == measured["suggested"]
    assert loaded["max-abs"].evidence["floor"] == measured["floor"]
    assert loaded["max-abs"].evidence["smallest_fault"] == measured["smallest_fault"]
    assert loaded["max-abs"].evidence["reason"] == 'measured on "two" machines'
    assert "soxr" in loaded["max-abs"].evidence["versions"]
    assert loaded["length"].limit == 0
    assert "smallest_fault" not in loaded["length"].evidence
    assert {gate.name: gate.rationale for gate in load(GATES)} == {
        name: gate.rationale for name, gate in loaded.items()
    }
    after = (gates / "resampler.toml").read_text().splitlines()
    assert [
        line for line in before.splitlines() if line not in after and not line.startswith(("limit", "evidence"))
    ] == []


def test_writing_twice_replaces_the_evidence(content: dict[str, Any], gates: Path) -> None:
    floor.write_limits(content, gates, "first")
    floor.write_limits(content, gates, "second")
    assert {gate.evidence["reason"] for gate in load(gates)} == {"second"}
    assert (gates / "resampler.toml").read_text().count("evidence =") == len(content["gates"])


@pytest.mark.parametrize("share", [0.5, 0.999])
def test_a_limit_below_the_floor_is_refused(content: dict[str, Any], gates: Path, share: float) -> None:
    entry = of(content, "max-abs")
    low = {**content, "gates": [{**entry, "suggested": share * entry["floor"]}]}
    before = (gates / "resampler.toml").read_text()
    with pytest.raises(ParityError, match="the reference itself would fail"):
        floor.write_limits(low, gates, "wish")
    assert (gates / "resampler.toml").read_text() == before


def test_a_reason_is_asked_for(content: dict[str, Any], gates: Path) -> None:
    with pytest.raises(ParityError, match="no reason given"):
        floor.write_limits(content, gates, " ")


@pytest.mark.parametrize(
    ("limit", "distance", "smallest", "ports", "suggested"),
    [
        (1e-5, 1e-6, 1e-2, 0.0, 1e-4),
        (5.0, 0.0, 1.0, 0.0, 5.0),  # no mean with 0: kept
        (0.0, 1e-7, float("inf"), 0.0, None),  # too tight, and no fault with a number
        (1.0, 2.0, 1.0, 0.0, None),  # the smallest fault is not beyond the floor
        (0.05, 1e-6, 0.5, 0.03, 0.05),  # the mean would fail a port of lower precision: kept
        (0.01, 1e-6, 0.5, 0.03, 7.1e-4),  # a port that fails already earns nothing
        (1.0, 1.004, 1.006, 0.0, (1.004 * 1.006) ** 0.5),  # two digits are not enough
    ],
)
def test_the_suggestion(limit: float, distance: float, smallest: float, ports: float, suggested: float | None) -> None:
    assert floor._suggest(limit, distance, smallest, ports)[0] == (suggested and pytest.approx(suggested))


def test_a_file_that_cannot_be_changed_as_text_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "demo.toml"
    text = '[[gate]]\nname = "a"\nrationale = """\nlimit = 3\n"""\nlimit = 1\n'
    path.write_text(text)
    with pytest.raises(ParityError, match="cannot be changed as text"):
        gates_text.rewrite(path, {"a": {"limit": 2.0, "evidence": {}}})
    assert path.read_text() == text


def test_comments_beside_a_limit_stay(tmp_path: Path) -> None:
    path = tmp_path / "demo.toml"
    path.write_text('# top\n[[gate]]\nname = "a"\nlimit = 1 # why\n\n[[gate]]\nname = "b"\nlimit = 5\n')
    gates_text.rewrite(path, {"a": {"limit": 2.5, "evidence": {"floor": 1e-6}}})
    assert path.read_text() == (
        '# top\n[[gate]]\nname = "a"\nlimit = 2.5 # why\nevidence = { floor = 1e-06 }\n\n'
        '[[gate]]\nname = "b"\nlimit = 5\n'
    )


def test_only_the_variations_of_an_implementation_apply_to_it() -> None:
    (family,) = load_families(["resampler"])
    librosa = [item.name for item in faults.variations(family, family.implementation("librosa"))]
    assert librosa == ["threads-2", "ulp-up", "ulp-down", "float64-librosa"]
