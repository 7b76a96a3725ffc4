"""Laws of the first divergence: it is where the fault is, wherever that is, and nothing is dropped on the way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.diagnosis.taps import Tap, classify, compare_taps, first_divergence
from harness.family import Stage
from harness.observations import TAP_PREFIX, Observation

FLOOR = 1e-5
NAMES = st.lists(st.text("abcdefgh0123", min_size=1, max_size=6), min_size=1, max_size=12, unique=True)
SEEDS = st.integers(0, 2**32 - 1)


def observed(taps: dict[str, np.ndarray]) -> Observation:
    tensors = {TAP_PREFIX + name: tap for name, tap in taps.items()}
    return Observation("family/name", "clip", "digest", "1", tensors, taps=tuple(taps))


def made(names: list[str], seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal((5, int(rng.integers(1, 9)))).astype(np.float32) for name in names}


def within_noise(taps: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed + 1)
    return {name: (tap * (1 + 1e-6 * rng.uniform(-1, 1, tap.shape))).astype(np.float32) for name, tap in taps.items()}


def broken(tap: np.ndarray, kind: str) -> np.ndarray:
    if kind == "nan":
        return np.full_like(tap, np.nan)
    return {"value": tap * np.float32(1.001), "shape": tap[:-1], "dtype": tap.astype(np.float64)}[kind]


def compared(reference: dict[str, np.ndarray], port: dict[str, np.ndarray], *stages: Stage) -> list[Tap]:
    return classify(compare_taps(observed(reference), observed(port), dict.fromkeys(reference, FLOOR), stages))


@given(NAMES, SEEDS, st.sampled_from(["value", "shape", "dtype", "nan"]))
def test_the_first_divergence_is_the_fault_at_every_position(names: list[str], seed: int, kind: str) -> None:
    reference = made(names, seed)
    for at, name in enumerate(names):
        port = within_noise(reference, seed)
        port |= {later: broken(reference[later], kind) for later in names[at:]}
        taps = compared(reference, port)
        assert first_divergence(taps) == name
        expected = ["agrees"] * at + ["diverges"] + ["inherited"] * (len(names) - at - 1)
        assert [item.status for item in taps] == expected


@given(NAMES, SEEDS)
def test_differences_within_the_floor_diverge_nowhere(names: list[str], seed: int) -> None:
    reference = made(names, seed)
    taps = compared(reference, within_noise(reference, seed))
    assert first_divergence(taps) is None
    assert {item.status for item in taps} == {"agrees"}


@given(NAMES, SEEDS, st.data())
def test_a_tap_on_one_side_only_is_listed_and_hides_no_fault(names: list[str], seed: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(names) - 1))
    others = [name for name in names if name != names[at]]
    missing = data.draw(st.sets(st.sampled_from(others))) if others else set()
    extra = data.draw(st.sampled_from([[], ["zz"], ["yy", "zz"]]))
    reference = made(names, seed)
    port = within_noise(reference, seed) | {name: broken(reference[name], "value") for name in names[at:]}
    port = {name: tap for name, tap in port.items() if name not in missing} | made(extra, seed)
    taps = compared(reference, port)
    assert [item.tap for item in taps] == [*names, *extra]
    assert {item.tap for item in taps if item.status == "unmatched"} == {*missing, *extra}
    assert first_divergence(taps) == names[at]


@given(NAMES, SEEDS, st.data())
def test_in_a_graph_only_what_follows_the_fault_inherits_it(names: list[str], seed: int, data: st.DataObject) -> None:
    stages, reached = [], set()
    at = data.draw(st.integers(0, len(names) - 1))
    for number, name in enumerate(names):
        inputs = tuple(sorted(data.draw(st.sets(st.sampled_from(names[:number]), max_size=3)))) if number else ()
        stages.append(Stage(name, inputs))
        if name == names[at] or reached & set(inputs):
            reached.add(name)
    reference = made(names, seed)
    port = within_noise(reference, seed) | {name: broken(reference[name], "value") for name in reached}
    taps = compared(reference, port, *stages)
    assert first_divergence(taps) == names[at]
    assert {item.tap for item in taps if item.status == "inherited"} == reached - {names[at]}


@pytest.mark.parametrize(("alone", "status"), [(1e-6, "drift"), (1e-3, "diverges"), (float("nan"), "diverges")])
def test_a_stage_that_agrees_alone_drifts_and_one_that_does_not_diverges(alone: float, status: str) -> None:
    taps = classify([Tap("before", 1e-6, FLOOR), Tap("state", 1e-3, FLOOR, ("before",), isolated=alone)])
    assert [item.status for item in taps] == ["agrees", status]
    assert first_divergence(taps) == "state"


def test_a_second_fault_behind_the_first_is_seen_alone() -> None:
    taps = [
        Tap("a", 1e-3, FLOOR, isolated=1e-3),
        Tap("b", 1e-3, FLOOR, ("a",), 1e-7),
        Tap("c", 1.0, FLOOR, ("b",), 1.0),
    ]
    assert [item.status for item in classify(taps)] == ["diverges", "inherited", "diverges"]
    assert first_divergence(classify(taps)) == "a"
