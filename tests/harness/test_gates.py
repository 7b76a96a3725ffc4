"""A gates file is read strictly, and an aggregate never hides a value."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from harness.errors import ParityError
from harness.family import Family, Implementation
from harness.gates import Gate, aggregate, load_gates

FAMILY = Family(
    name="demo",
    description="",
    task="resampler",
    implementations=(Implementation("demo/a", "reference", "x:A"), Implementation("demo/b", "port", "x:B")),
)
METRICS = {"max_abs": "1", "loss_db": "dB"}
GOOD = {
    "name": '"m"',
    "metric": '"max_abs"',
    "unit": '"1"',
    "scope": '"clips"',
    "aggregation": '"worst"',
    "limit": "1e-6",
    "rationale": '"measured"',
}


def write(folder: Path, **changes: str | None) -> Path:
    entries = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    text = "[[gate]]\n" + "\n".join(f"{key} = {value}" for key, value in entries.items())
    (folder / "demo.toml").write_text(text)
    return folder


def test_a_whole_gate_is_read(tmp_path: Path) -> None:
    (gate,) = load_gates(write(tmp_path), FAMILY, METRICS)
    assert (gate.name, gate.metric, gate.limit, gate.scope) == ("m", "max_abs", 1e-6, "clips")
    assert gate.applies_to("demo/b", "fresh")
    assert gate.applies_to("demo/a", "frozen")


def test_two_scopes_are_two_gates(tmp_path: Path) -> None:
    gates = load_gates(write(tmp_path, scope='["clips", "signals"]'), FAMILY, METRICS)
    assert [gate.scope for gate in gates] == ["clips", "signals"]


def test_a_gate_applies_where_it_says(tmp_path: Path) -> None:
    folder = write(tmp_path, implementations='["demo/b"]', against='["fresh"]')
    (gate,) = load_gates(folder, FAMILY, METRICS)
    assert gate.applies_to("demo/b", "fresh")
    assert not gate.applies_to("demo/a", "fresh")
    assert not gate.applies_to("demo/b", "frozen")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": '"max_ab"'}, "metric max_ab"),
        ({"limit": None}, r"\['limit'\] are missing"),
        ({"rationale": None}, r"\['rationale'\] are missing"),
        ({"rationale": '" "'}, "empty rationale"),
        ({"limit": '"1e-6"'}, "limit is '1e-6'"),
        ({"limit": "nan"}, "limit is nan"),
        ({"limit": "inf"}, "limit is inf"),
        ({"limit": "true"}, "limit is True"),
        ({"unit": '"dB"'}, "unit 'dB'"),
        ({"aggregation": '"mean"'}, "aggregation 'mean'"),
        ({"aggregation": '"rate"'}, "clip_limit is None"),
        ({"clip_limit": "1.0"}, "clip_limit without"),
        ({"scope": '"clip"'}, r"scope \['clip'\]"),
        ({"scope": "[]"}, "scope"),
        ({"implementations": '["demo/c"]'}, r"implementations \['demo/c'\]"),
        ({"limt": "1"}, r"unknown keys \['limt'\]"),
    ],
)
def test_a_wrong_gate_is_refused(tmp_path: Path, changes: dict[str, str | None], message: str) -> None:
    with pytest.raises(ParityError, match=message) as caught:
        load_gates(write(tmp_path, **changes), FAMILY, METRICS)
    assert "demo.toml: gate m" in str(caught.value)


@pytest.mark.parametrize("text", ["[[gate", "", "gates = 1", "gate = [1]", "\x00"])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "demo.toml").write_text(text)
    with pytest.raises(ParityError, match=r"demo\.toml"):
        load_gates(tmp_path, FAMILY, METRICS)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="no such file"):
        load_gates(tmp_path, FAMILY, METRICS)


def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "demo.toml"
    path.write_text(path.read_text() + "\n" + path.read_text())
    with pytest.raises(ParityError, match="twice"):
        load_gates(tmp_path, FAMILY, METRICS)


def gate(aggregation: str, clip_limit: float = math.nan) -> Gate:
    return Gate("g", "max_abs", "1", 1.0, aggregation, "clips", "why", clip_limit)  # type: ignore[arg-type]


def test_aggregates_by_hand() -> None:
    values, clips = [1.0, 2.0, 3.0, 4.0, 5.0], ["a", "b", "c", "d", "d"]
    assert aggregate(gate("worst"), values, clips) == 5.0
    assert aggregate(gate("p95"), values, clips) == pytest.approx(4.8)
    assert aggregate(gate("rate", clip_limit=3.0), values, clips) == 0.25  # one clip of four, though two of its values


@pytest.mark.parametrize("aggregation", ["worst", "p95", "rate"])
def test_nan_and_nothing_never_pass(aggregation: str) -> None:
    chosen = gate(aggregation, 1.0)
    for values, clips in ([[], []], [[math.nan], ["a"]], [[0.0, math.nan, 0.0], ["a", "b", "c"]]):
        assert not aggregate(chosen, values, clips) <= chosen.limit
