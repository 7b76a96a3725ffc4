"""The compare phase: measurements from the stored observations of a run, without running a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.clips import Clip
from harness.errors import ParityError
from harness.family import Family
from harness.measurements import Measurement
from harness.metrics.tensors import NotComparable
from harness.observations import Observation, read_observation
from harness.plan import GIVEN, Pair, bare, variant_of
from harness.runs import Run
from harness.tasks import Task, exchanged_by, load_task

if TYPE_CHECKING:
    import pandas as pd

ANY_METRIC = "*"
COLUMNS = (
    "run", "family", "reference", "port", "kind", "scope", "clip", "metric", "place", "unit", "value", "state",
    "detail",
)  # fmt: skip


def compare(run: Run, families: Mapping[str, Family]) -> pd.DataFrame:
    """Compare every planned pair of a run on every clip that both sides take; write `measurements.parquet`.

    A clip on which one side has no usable observation gives one row of metric `*`: `missing` when the side did not
    produce it (or the reference's is unusable), `invalid` when the port's is damaged.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for record in run.read_json("run.json")["plans"]:
        family = families[record["family"]]
        task = load_task(family.task)
        clips = run.read_inputs(family.name)
        for pair in (Pair(**item) for item in record["pairs"]):
            head = {"run": run.id, "family": family.name, **vars(pair)}
            rows += [
                {**head, "scope": clip.scope, "clip": clip.id, **vars(measurement)}
                for clip in _common_clips(run, family, pair, clips)
                for measurement in compare_clip(run, task, pair, clip)
            ]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    table.to_parquet(run.measurements, index=False)
    return table


def _common_clips(run: Run, family: Family, pair: Pair, clips: Sequence[Clip]) -> Iterator[Clip]:
    sides = [(family.implementation(bare(name)), variant_of(name)) for name in (pair.reference, pair.port)]
    for clip in clips:
        if all(side.accepts(clip.rate_hz, variant) for side, variant in sides) and (
            pair.kind == "fresh" or run.observation(pair.reference, clip.id).is_dir()
        ):
            yield clip


def compare_clip(run: Run, task: Task, pair: Pair, clip: Clip) -> Iterator[Measurement]:
    """The measurements of one pair on one clip."""
    reference, problem = _read(run, pair.reference, clip)
    if reference is None:
        yield Measurement(ANY_METRIC, "", pair.reference, float("nan"), f"reference: {problem}", "missing")
        return
    if not run.observation(pair.port, clip.id).is_dir():
        yield Measurement(ANY_METRIC, "", pair.port, float("nan"), "no observation of this clip", "missing")
        return
    port, problem = _read(run, pair.port, clip)
    if port is None:
        yield Measurement(ANY_METRIC, "", pair.port, float("nan"), problem, "invalid")
        return
    if problem := _other_weights(reference, port):
        yield Measurement(ANY_METRIC, "", pair.port, float("nan"), problem, "missing")
        return
    try:
        yield from task.compare(*with_given(run, exchanged_by(task), pair, reference, port), clip)
    except NotComparable as error:
        yield Measurement(ANY_METRIC, "", pair.port, float("nan"), str(error), "invalid")


def with_given(
    run: Run, names: Sequence[str], pair: Pair, reference: Observation, port: Observation
) -> tuple[Observation, Observation]:
    """Both sides with what each made of the other's product, which is its own output when the products are equal.

    names: the tensors that are the product, `EXCHANGED` of the task.
    """
    if not names or not all(name in side.tensors for name in names for side in (reference, port)):
        return reference, port
    same = all(np.array_equal(reference.tensors[name], port.tensors[name]) for name in names)
    made = []
    consumers = (reference, f"{pair.reference}{GIVEN}-{pair.port.partition('/')[2]}"), (port, pair.port + GIVEN)
    for own, name in consumers:
        folder = run.observation(name, own.clip)
        stored = pair.kind == "fresh" and not same and folder.is_dir()
        other = own if same else read_observation(folder) if stored else None
        given = {f"given/{key}": tensor for key, tensor in other.tensors.items()} if other else {}
        made.append(dataclasses.replace(own, tensors={**own.tensors, **given}))
    return made[0], made[1]


def _read(run: Run, side: str, clip: Clip) -> tuple[Observation | None, str]:
    """A usable observation, or None and why there is none."""
    folder = run.observation(side, clip.id)
    try:
        observation = read_observation(folder)
    except ParityError as error:
        return None, str(error)
    if observation.clip_digest != clip.digest:
        return None, f"{folder}: made from a clip of digest {observation.clip_digest[:12]}, not {clip.digest[:12]}"
    return observation, ""


def _other_weights(reference: Observation, port: Observation) -> str:
    """Why two observations of one implementation and variant were not made with the same weights."""
    same = (reference.implementation, reference.variant) == (port.implementation, port.variant)
    if same and reference.checkpoint_digest != port.checkpoint_digest:
        return f"weights {port.checkpoint_digest[:12]}, the reference's are {reference.checkpoint_digest[:12]}"
    return ""
