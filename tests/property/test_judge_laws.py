"""Judging is monotone: a looser limit never fails what a tighter one passes, a larger error never mends."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harness.family import Family, Implementation
from harness.gates import Gate
from harness.plan import Pair
from harness.verdicts import judge_family

FAMILY = Family(
    name="demo",
    description="",
    task="resampler",
    implementations=(Implementation("demo/ref", "reference", "x:A"), Implementation("demo/port", "port", "x:B")),
)
PAIR = Pair("demo/ref", "demo/port", "fresh")
RAN = {"demo/ref": {"status": "ran", "reason": ""}, "demo/port": {"status": "ran", "reason": ""}}
VALUES = st.lists(st.floats(0, 1e6) | st.just(math.inf), min_size=1, max_size=8)
AGGREGATIONS = st.sampled_from(["worst", "p95", "rate"])
LIMITS = st.floats(0, 1e6)


def status(gate: Gate, values: list[float]) -> str:
    head: dict[str, Any] = {"family": "demo", **vars(PAIR), "scope": "clips", "metric": "m", "place": "x"}
    rows = [
        {**head, "clip": str(at), "value": value, "state": "measured", "detail": ""} for at, value in enumerate(values)
    ]
    (judgement,) = judge_family(FAMILY, [PAIR], [gate], rows, RAN, lambda _: "")
    return judgement.status


def gate(aggregation: Any, limit: float) -> Gate:
    return Gate("g", "m", "1", limit, aggregation, "clips", "why", clip_limit=1.0)


@given(AGGREGATIONS, VALUES, LIMITS, LIMITS)
def test_a_looser_limit_never_fails_what_a_tighter_passes(
    aggregation: str, values: list[float], one: float, other: float
) -> None:
    tight, loose = sorted((one, other))
    if status(gate(aggregation, tight), values) == "pass":
        assert status(gate(aggregation, loose), values) == "pass"


@given(AGGREGATIONS, VALUES, LIMITS, st.data())
def test_a_larger_error_never_mends(aggregation: str, values: list[float], limit: float, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(values) - 1))
    worse = [*values]
    worse[at] = data.draw(st.floats(values[at], math.inf)) if math.isfinite(values[at]) else math.inf
    if status(gate(aggregation, limit), values) != "pass":
        assert status(gate(aggregation, limit), worse) != "pass"


@given(AGGREGATIONS, VALUES, st.floats(0, 1e300), st.data())
def test_nan_never_passes(aggregation: str, values: list[float], limit: float, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(values)))
    assert status(gate(aggregation, limit), [*values[:at], math.nan, *values[at:]]) == "fail"


@given(AGGREGATIONS, VALUES, LIMITS)
def test_the_order_of_clips_does_not_matter(aggregation: str, values: list[float], limit: float) -> None:
    assert status(gate(aggregation, limit), values) == status(gate(aggregation, limit), values[::-1])


def test_a_gate_that_nothing_yields_is_an_error() -> None:
    assert judge_family(FAMILY, [PAIR], [gate("worst", 1e9)], [], RAN, lambda _: "")[0].status == "error"
