"""The judge: every way not to pass has its own status, and only a pass is a pass."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from harness.family import Family, Implementation
from harness.gates import Gate, placement
from harness.plan import Pair
from harness.verdicts import Judgement, exit_status, judge_family, worst

FAMILY = Family(
    name="demo",
    description="",
    task="resampler",
    implementations=(Implementation("demo/ref", "reference", "x:A"), Implementation("demo/port", "port", "x:B")),
)
GATE = Gate("g", "max_abs", "1", 1.0, "worst", "clips", "why")
PAIR = Pair("demo/ref", "demo/port", "fresh")
REPEAT = Pair("demo/ref", "demo/ref@repeat", "fresh")
RAN = {"demo/ref": {"status": "ran", "reason": ""}, "demo/port": {"status": "ran", "reason": ""}}


def row(value: float, clip: str = "a", pair: Pair = PAIR, **changes: Any) -> dict[str, Any]:
    return {
        "family": "demo",
        **vars(pair),
        "scope": "clips",
        "clip": clip,
        "metric": "max_abs",
        "place": "x",
        "unit": "1",
        "value": value,
        "state": "measured",
        "detail": "",
        **changes,
    }


def judge(*rows: dict[str, Any], outcomes: dict[str, Any] = RAN, pairs: tuple[Pair, ...] = (PAIR,)) -> list[Judgement]:
    return judge_family(FAMILY, pairs, [GATE], rows, outcomes, lambda _: "parity run demo")


@pytest.mark.parametrize(
    ("rows", "status", "reason"),
    [
        ([row(1.0)], "pass", ""),
        ([row(1.0), row(1.0000001, "b")], "fail", "b, demo/port, x: obtained 1"),
        ([row(math.nan)], "fail", "obtained nan"),
        ([row(math.inf)], "fail", "obtained inf"),
        ([row(0.0), row(math.nan, "b", state="invalid", detail="lengths 3 and 4")], "fail", "lengths 3 and 4"),
        ([row(0.0), row(math.nan, "b", metric="*", state="invalid", detail="holds 2 NaN")], "fail", "holds 2 NaN"),
        ([row(0.0), row(math.nan, "b", metric="*", state="missing", detail="gone")], "error", "gone"),
        ([], "error", "no observation yields max_abs"),
        ([row(0.0, metric="other")], "error", "no observation yields max_abs"),
        ([row(0.0, scope="signals")], "error", "no observation yields max_abs"),
    ],
)
def test_statuses(rows: list[dict[str, Any]], status: str, reason: str) -> None:
    (judgement,) = judge(*rows)
    assert judgement.status == status
    assert reason in judgement.reason


def test_a_side_that_did_not_run_is_not_run() -> None:
    outcomes = {**RAN, "demo/port": {"status": "not-run", "reason": "apt-get install it"}}
    (judgement,) = judge(outcomes=outcomes)
    assert (judgement.status, judgement.reason) == ("not-run", "demo/port: apt-get install it")


def test_a_crash_gives_its_own_reason() -> None:
    outcomes = {**RAN, "demo/port": {"status": "error", "reason": "killed by SIGSEGV"}}
    (judgement,) = judge(
        row(0.0), row(math.nan, "b", metric="*", state="missing", place="demo/port"), outcomes=outcomes
    )
    assert (judgement.status, judgement.reason) == ("error", "killed by SIGSEGV")


def test_an_unsteady_reference_makes_the_port_inconclusive() -> None:
    unsteady, port = judge(row(2.0, pair=REPEAT), row(0.0), pairs=(REPEAT, PAIR))
    assert unsteady.status == "fail"
    assert port.status == "inconclusive"
    assert "differs from itself by 2.0" in port.reason


def test_the_worst_clip_and_place_are_named() -> None:
    (judgement,) = judge(row(0.1), row(0.9, "b", place="y"), row(0.2, "c"))
    assert (judgement.value, judgement.worst_clip, judgement.worst_place, judgement.clips) == (0.9, "b", "y", 3)


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (["pass"], 0),
        (["pass", "fail"], 1),
        (["error", "fail", "not-run"], 1),
        (["pass", "error"], 2),
        (["pass", "not-run"], 2),
        (["pass", "inconclusive"], 2),
        (["not-comparable"], 2),
        ([], 2),
    ],
)
def test_exit_statuses(statuses: list[str], status: int) -> None:
    assert exit_status(statuses) == status


def test_nothing_is_not_a_pass() -> None:
    assert worst([]) == "error"


@pytest.mark.parametrize(
    ("evidence", "state"),
    [
        ({}, ""),
        ({"floor": 0.5, "smallest_fault": 2.0}, "sound"),
        ({"floor": 0.5}, "sound"),
        ({"floor": 1.5, "smallest_fault": 2.0}, "too tight"),
        ({"floor": 0.1, "smallest_fault": 1.0}, "blind"),
        ({"floor": 0.1, "smallest_fault": 0.5}, "blind"),
    ],
)
def test_where_a_limit_lies(evidence: dict[str, float], state: str) -> None:
    assert placement(dataclasses.replace(GATE, evidence=evidence)) == state
