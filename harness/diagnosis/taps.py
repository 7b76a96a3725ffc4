"""Taps compared in execution order, and which of them is to blame.

Conventions: the error of a tap is the root of the squared difference over the reference's squared values, without unit.
A tap's status is

    agrees      its error is within its floor
    diverges    it is not, though every input of it agrees; or, fed with the reference's inputs, it alone does not
    inherited   it is not, and neither is an input of it
    drift       it is not, though its inputs agree and, fed with the reference's inputs, it agrees: what differs is
                carried from step to step
    unmatched   it is on one side only: nothing could be compared

The outputs follow the taps as `output/…`. The search is linear: every tap is compared.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.family import Stage
from harness.metrics.tensors import NotComparable, compare_tensors
from harness.observations import TAP_PREFIX, Observation

RESOLUTION = float(np.finfo(np.float32).eps)
OUTPUT_PREFIX = "output/"


@dataclass(frozen=True)
class Tap:
    """One tap compared.

    error: NaN or infinite when the values are, or cannot be compared; None when one side lacks the tap. inputs: the
    taps that it is computed from. isolated: the error of the port's stage alone, fed with the reference's inputs, None
    when it cannot run alone. note: where it is largest, or why it cannot be compared.
    """

    tap: str
    error: float | None
    floor: float
    inputs: tuple[str, ...] = ()
    isolated: float | None = None
    note: str = ""
    status: str = ""


def compare_taps(
    reference: Observation,
    port: Observation,
    floors: Mapping[str, float],
    stages: Sequence[Stage] = (),
    alone: Observation | None = None,
) -> list[Tap]:
    """Every tap and every output of either side, in the reference's order, what only the port has at the end.

    floors: by tap, and by `output/…`; `RESOLUTION` where there is none. stages: how taps are matched and what their
    inputs are; without them taps of one name match, and each follows the one before. alone: the port's stages, each fed
    with the reference's inputs.
    """
    declared = {stage.tap: stage for stage in stages}
    left, right = named_tensors(reference), named_tensors(port)
    single = {TAP_PREFIX + name: tensor for name, tensor in named_tensors(alone).items()} if alone else {}
    names = {tap: (declared[tap].port_tap or tap) if tap in declared else tap for tap in left}
    order = [*left, *(name for name in right if name not in names.values())]
    taps: list[Tap] = []
    before: tuple[str, ...] = ()
    for name in order:
        stage = declared.get(name, Stage(name, before))
        own = names.get(name, name)
        error, note = relative_error(left.get(name), right.get(own), stage.axes)
        isolated = None
        if not name.startswith(OUTPUT_PREFIX) and TAP_PREFIX + own in single:
            isolated, _ = relative_error(left.get(name), single[TAP_PREFIX + own], stage.axes)
        taps.append(Tap(name, error, floors.get(name, RESOLUTION), stage.inputs, isolated, note))
        before = (name,)
    return taps


def named_tensors(observation: Observation) -> dict[str, Any]:
    """The taps in execution order, then the outputs as `output/…`."""
    taps = {name: observation.tensors[TAP_PREFIX + name] for name in observation.taps}
    outputs = {name: tensor for name, tensor in observation.tensors.items() if not name.startswith(TAP_PREFIX)}
    return {**taps, **{OUTPUT_PREFIX + name: tensor for name, tensor in outputs.items()}}


def relative_error(expected: Any, obtained: Any, axes: tuple[int, ...] = ()) -> tuple[float | None, str]:
    """The relative error, and what there is to say of it."""
    if expected is None or obtained is None:
        return None, "not in the port" if obtained is None else "not in the reference"
    if axes and obtained.ndim == len(axes):
        obtained = obtained.transpose(axes)
    try:
        error = compare_tensors(expected, obtained)
    except NotComparable as reason:
        return math.inf, str(reason)
    if error.size == 0:
        return math.inf, "empty on both sides: nothing was compared"
    if error.nan_count:
        return math.nan, f"{error.nan_count} NaN, the first at {list(error.worst_index)}"
    return math.sqrt(error.nmse), f"largest at {list(error.worst_index)}"


def classify(taps: Sequence[Tap]) -> list[Tap]:
    """The taps with their status. An unmatched input is looked through, to what comes before it."""
    by_name = {item.tap: item for item in taps}

    def agrees(name: str, seen: frozenset[str] = frozenset()) -> bool:
        item = by_name.get(name)
        if item is None or name in seen:
            return True
        if item.error is None:
            return all(agrees(before, seen | {name}) for before in item.inputs)
        return item.error <= item.floor

    def status(item: Tap) -> str:
        if item.error is None:
            return "unmatched"
        if item.error <= item.floor:
            return "agrees"
        if item.isolated is not None and not item.isolated <= item.floor:
            return "diverges"
        if not all(agrees(name) for name in item.inputs):
            return "inherited"
        return "diverges" if item.isolated is None else "drift"

    return [dataclasses.replace(item, status=status(item)) for item in taps]


def first_divergence(taps: Sequence[Tap]) -> str | None:
    """The first tap that diverges of itself, else the first that drifts, else None."""
    for wanted in ("diverges", "drift"):
        for item in taps:
            if item.status == wanted:
                return item.tap
    return None
