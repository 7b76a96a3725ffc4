"""Which stage of a pipeline is to blame: each stage in turn is run by the reference, and the gates judge again.

Conventions: a way is which side runs each stage, for example `port, port`. The way `reference, reference` is what every
other is judged against, by the fresh gates of the last stage's family. A stage is replaced by letting the reference run
it on what the stage before delivers, so that replacing the last stage does not pass by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.clips import Clip, load_clips
from harness.compare import with_given
from harness.diagnosis.faults import finite
from harness.diagnosis.recording import record
from harness.errors import ParityError
from harness.families import load_families
from harness.family import Family, Fault, Pipeline, PipelineStage
from harness.measurements import Measurement
from harness.metrics.tensors import NotComparable
from harness.observations import Observation, read_observation
from harness.observe import Listener
from harness.pipeline import GOLDEN, gates_of
from harness.plan import Execution, FamilyPlan, Pair
from harness.runs import Run
from harness.tasks import exchanged_by, load_task
from harness.verdicts import Judgement, judge_family, worst

Side = Literal["reference", "port"]
Way = tuple[Side, ...]
SEPARATOR = "--"


@dataclass(frozen=True)
class Bound:
    """A stage with what runs it."""

    stage: PipelineStage
    family: Family
    sides: Mapping[Side, Execution]


@dataclass(frozen=True)
class Ended:
    """The last stage's run, and the clip that a way hands to it, by the way's sides and the first clip's id."""

    run: Run
    handed: Mapping[tuple[Way, str], Clip | str]


def inject(
    family: Family, port: str, plant: str | None, listener: Listener, runs: Path, clips: Path | None
) -> dict[str, Any]:
    """Run the pipeline that ends in a family by its ports, then with each stage run by the reference.

    port: the port of the last stage. plant: a fault of any stage's port. clips: a folder, the project's own clips when
    None. Raises ParityError for an unknown name, and when no clip has a rate that the pipeline takes.
    """
    pipeline = family.pipeline
    if pipeline is None:
        raise ParityError(family.name, "declares no pipeline that ends in it", "a family with one", "declare it")
    bound = _bind(pipeline, family, port, plant)
    given = [
        dataclasses.replace(clip, samples=clip.mono(), golden=False)
        for clip in load_clips(clips or GOLDEN / "clips")
        if clip.scope == "clips" and clip.rate_hz in pipeline.rates_hz
    ]
    if not given:
        rates = f"a recording at {list(pipeline.rates_hz)} Hz"
        raise ParityError(clips or GOLDEN / "clips", "no clip that this pipeline takes", rates, "check --clips")
    command = f"parity inject {family.name} --port {port}" + (f" --plant {plant}" if plant else "")
    ended = _run_stages(bound, given, runs, listener, command)
    plain = _all("port", bound)
    whole = _judge(bound, plain, given, ended, command)
    stages = []
    for index, item in enumerate(bound):
        way: Way = (*plain[:index], "reference", *plain[index + 1 :])
        judgements = _judge(bound, way, given, ended, command)
        stages.append({"stage": item.stage.name, "status": _status(judgements), "failing": _failing(judgements)})
    mending, blamed = blame(_status(whole), stages)
    content = {
        "family": family.name,
        "port": bound[-1].sides["port"].implementation.name,
        "clips": [clip.id for clip in given],
        "status": _status(whole),
        "failing": _failing(whole),
        "reasons": {item.gate: item.reason for item in whole if item.status != "pass"},
        "worst": _worst(bound, whole, given, ended),
        "stages": stages,
        "mending": mending,
        "blamed": blamed,
        "run": ended.run.id,
    }
    ended.run.write_json("inject.json", content)
    return content


def _worst(
    bound: Sequence[Bound], judgements: Sequence[Judgement], given: Sequence[Clip], ended: Ended
) -> dict[str, Any] | None:
    """The clip to draw: the worst of the first gate that does not pass, with each side's input and what was measured.

    A value that is not finite is None in the rows.
    """
    named = [item.worst_clip for item in judgements if item.status != "pass" and item.worst_clip]
    found = [clip for clip in given if named and clip.id == named[0]]
    if not found:
        return None
    (clip,) = found
    sides = {}
    for side in ("reference", "port"):
        handed = ended.handed[_all(side, bound)[:-1], clip.id]
        if isinstance(handed, str):
            return None
        sides[side] = {"execution": bound[-1].sides[side].name, "clip": handed.id}
    measured = _compare(bound[-1], _all("port", bound), clip, ended)
    rows = [{**vars(item), "value": finite(item.value)} for item in measured]
    return {"clip": clip.id, "scope": clip.scope, **sides, "rows": rows}


def blame(status: str, stages: Sequence[Mapping[str, Any]]) -> tuple[list[str], str | None]:
    """The stages whose replacement turns fail into pass, and the one to blame when it is the only one."""
    mending = [item["stage"] for item in stages if item["status"] == "pass"] if status == "fail" else []
    return mending, mending[0] if len(mending) == 1 else None


def exit_status(content: Mapping[str, Any]) -> int:
    """0 when the ports' pipeline passes, 1 when a gate fails, 2 when that could not be judged."""
    return {"pass": 0, "fail": 1}.get(content["status"], 2)


def _bind(pipeline: Pipeline, family: Family, port: str, plant: str | None) -> list[Bound]:
    others = {item.name: item for item in load_families()}
    families = [family if stage.family == family.name else others[stage.family] for stage in pipeline.stages]
    fault = _find_fault(families, plant) if plant else None
    bound = []
    for stage, own in zip(pipeline.stages, families, strict=True):
        chosen = own.implementation(stage.port or port)
        if chosen.role != "port":
            raise ParityError(chosen.name, "is a reference", "a port", "see `parity list`")
        suffix = f"@{chosen.variant}" if chosen.variant else ""
        planted = fault if fault and fault.implementation == chosen.name else None
        sides: dict[Side, Execution] = {
            "reference": Execution(own.implementation(stage.reference), chosen.variant, suffix),
            "port": Execution(chosen, fault=planted),
        }
        bound.append(Bound(stage, own, sides))
    if fault and not any(item.sides["port"].fault for item in bound):
        raise ParityError(fault.name, f"is a fault of {fault.implementation}", "a port of this pipeline")
    return bound


def _find_fault(families: Sequence[Family], name: str) -> Fault:
    known = [fault for family in families for fault in family.faults]
    for fault in known:
        if fault.name == name:
            return fault
    raise ParityError(name, "no such fault in this pipeline", f"one of {', '.join(item.name for item in known)}")


def _run_stages(bound: Sequence[Bound], given: Sequence[Clip], runs: Path, listener: Listener, command: str) -> Ended:
    """One stored run per stage, both sides on everything that the stages before can hand over."""
    handed: dict[tuple[Way, str], Clip | str] = {((), clip.id): clip for clip in given}
    for item in bound:
        plan = FamilyPlan(
            item.family,
            tuple(item.sides.values()),
            (Pair(item.sides["reference"].name, item.sides["port"].name, "fresh"),),
        )
        inputs = [clip for clip in handed.values() if isinstance(clip, Clip)]
        run = record(lambda _, plan=plan: plan, inputs, runs, listener, command)  # type: ignore[misc]
        if item is bound[-1]:
            return Ended(run, handed)
        handed = {
            ((*way, side), clip_id): _hand_over(item, run, side, clip, (*way, side), clip_id)
            for (way, clip_id), clip in handed.items()
            for side in item.sides
        }
    raise AssertionError("a pipeline has stages")


def _hand_over(item: Bound, run: Run, side: Side, clip: Clip | str, way: Way, clip_id: str) -> Clip | str:
    """The next stage's clip, or why there is none."""
    if isinstance(clip, str):
        return clip
    execution = item.sides[side]
    folder = run.observation(execution.name, clip.id)
    if not folder.is_dir():
        return f"{execution.name} gives nothing for {clip.id}"
    samples = read_observation(folder).tensors.get(item.stage.tensor)
    if samples is None:
        return f"{execution.name} gives no {item.stage.tensor} for {clip.id}"
    name = SEPARATOR.join([clip_id, *way])
    origin = f"{item.stage.tensor} of {execution.name}, {run.id}"
    return dataclasses.replace(clip, id=name, samples=samples, rate_hz=item.stage.rate_hz, origin=origin)


def _judge(bound: Sequence[Bound], way: Way, given: Sequence[Clip], ended: Ended, command: str) -> list[Judgement]:
    """The gates on a way against the references' own."""
    last = bound[-1]
    port = last.sides["port"].implementation.name
    pair = Pair(last.sides["reference"].name, f"{port}+{SEPARATOR.join(way)}", "fresh")
    rows = [
        {"family": last.family.name, **vars(pair), "scope": clip.scope, "clip": clip.id, **vars(measurement)}
        for clip in given
        for measurement in _compare(last, way, clip, ended)
    ]
    gates = gates_of([last.family], GOLDEN / "gates")[last.family.name]
    gates = [gate for gate in gates if gate.scope == "clips"]
    return judge_family(last.family, [pair], gates, rows, {}, lambda _: command)


def _compare(last: Bound, way: Way, clip: Clip, ended: Ended) -> Iterator[Measurement]:
    sides = []
    for taken in (_all("reference", way), way):
        observation, problem = _observed(last, taken, clip, ended)
        if observation is None:
            yield Measurement("*", "", taken[-1], float("nan"), problem, "missing")
            return
        sides.append(observation)
    reference, port = sides
    try:
        yield from load_task(last.family.task).compare(reference, _with_given(last, way, clip, ended, port), clip)
    except NotComparable as error:
        yield Measurement("*", "", way[-1], float("nan"), str(error), "invalid")


def _observed(last: Bound, way: Way, clip: Clip, ended: Ended) -> tuple[Observation | None, str]:
    """What a way makes of a clip in the last stage, or None and why there is nothing."""
    handed = ended.handed[way[:-1], clip.id]
    if isinstance(handed, str):
        return None, handed
    name = last.sides[way[-1]].name
    folder = ended.run.observation(name, handed.id)
    return (read_observation(folder), "") if folder.is_dir() else (None, f"{name} gives nothing for {handed.id}")


def _with_given(last: Bound, way: Way, clip: Clip, ended: Ended, own: Observation) -> Observation:
    """A way's output with what its last stage makes of the product of the reference's way, where products are handed.

    That is on record: the last stage was run on all that the stages before can hand over, and given what the reference
    made of the same.
    """
    names = exchanged_by(load_task(last.family.task))
    whole = _all("reference", way)
    reference, _ = _observed(last, whole, clip, ended)
    side, _ = _observed(last, (*whole[:-1], way[-1]), clip, ended)
    if reference is None or side is None:
        return own
    pair = Pair(last.sides["reference"].name, last.sides[way[-1]].name, "fresh")
    _, side = with_given(ended.run, names, pair, reference, side)
    given = {name: tensor for name, tensor in side.tensors.items() if name.startswith("given/")}
    return dataclasses.replace(own, tensors={**own.tensors, **given})


def _all(side: Side, stages: Sequence[Any]) -> Way:
    return tuple(side for _ in stages)


def _status(judgements: Sequence[Judgement]) -> str:
    return worst([item.status for item in judgements])


def _failing(judgements: Sequence[Judgement]) -> list[str]:
    return [item.gate for item in judgements if item.status != "pass"]
