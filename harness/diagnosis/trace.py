"""Where a port leaves its reference: its taps in execution order, each against a floor, and what explains it.

Conventions: see `harness.diagnosis.taps`. The floor of a tap is the largest error that the family's declared
variations, changes that must not matter, make in the reference itself, times `FLOOR_FACTOR`, and never below float32's
resolution.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.clips import Clip
from harness.diagnosis.explain import Explanation, explain, explaining_faults, is_convincing
from harness.diagnosis.recording import observation_of, optional_observation, outcome_of, record
from harness.diagnosis.taps import (
    RESOLUTION,
    Tap,
    classify,
    compare_taps,
    first_divergence,
    named_tensors,
    relative_error,
)
from harness.errors import ParityError
from harness.family import Family, Implementation, Replacement, Stage, Variation
from harness.metrics.tensors import NotComparable, compare_tensors
from harness.observations import Observation
from harness.observe import Listener
from harness.pipeline import Request, observe_only, stimuli_of
from harness.plan import Execution, FamilyPlan, Pair
from harness.runs import Run
from harness.tasks import load_task

# The variations keep the order in which the reference sums. A port that sums in another order was measured to be up to
# 4 times as far from the reference on the golden recordings, 17 times on the test signals (a sweep, whose large terms
# cancel); twice that is allowed.
FLOOR_FACTOR = 32.0
# For a family that declares no variation of its reference.
DEFAULT_VARIATIONS = (
    Variation("threads-2", "two numerical threads", threads=2),
    Variation("ulp-up", "every input sample moved up by one representable number", ulp=1),
)


@dataclass(frozen=True)
class Isolated(Execution):
    """A port whose `taps` gives each stage alone, fed with a stored observation of the reference."""

    fed: str = ""
    stages: tuple[Stage, ...] = ()

    @property
    def changes(self) -> list[Replacement]:
        """The fault first, so that the stages run with it."""
        source = "harness.diagnosis.isolated"
        return [
            *super().changes,
            Replacement(f"{source}:FOLDER", value=self.fed),
            Replacement(f"{source}:STAGES", value=[dataclasses.asdict(stage) for stage in self.stages]),
            Replacement(f"{self.implementation.factory}.taps", replacement=f"{source}:isolated", wraps=True),
        ]


def trace(
    family: Family,
    port: str,
    clip: str | None,
    plant: str | None,
    listener: Listener,
    runs: Path,
    clips: Path | None,
) -> dict[str, Any]:
    """Trace a port on one clip, and explain its error by the family's faults.

    port: short or full name. clip: its id, else the clip on which the port's outputs are farthest from the reference's.
    plant: a declared fault, planted in the port. Raises ParityError for an unknown name, and when the reference or the
    port gives nothing for the clip.
    """
    traced = family.implementation(port)
    if traced.role != "port":
        raise ParityError(traced.name, "is a reference", "a port", "see `parity list`")
    fault = family.fault(plant) if plant else None
    if fault and fault.implementation != traced.name:
        raise ParityError(
            fault.name, f"is a fault of {fault.implementation}", traced.name, "see `parity list --faults`"
        )
    suffix = f"@{traced.variant}" if traced.variant else ""
    reference = Execution(family.references[0], traced.variant, suffix)
    execution = Execution(traced, fault=fault)
    stimuli = [item for item in stimuli_of([family], clips)[family.name] if _taken(item, reference, execution)]
    chosen = _named(stimuli, clip) if clip else _worst_clip(family, reference, execution, listener, runs, clips)
    faults, stages = explaining_faults(family, traced), family.stages.get(traced.name, ())
    variations = _variations(family, reference)

    def plan_for(run: Run) -> FamilyPlan:
        running = [reference, execution]
        if stages:
            fed = str(run.observation(reference.name, chosen.id).resolve())
            running.append(Isolated(traced, suffix="+isolated", fault=fault, fed=fed, stages=stages))
        running += [
            dataclasses.replace(reference, suffix=f"{suffix}+{item.name}", variation=item) for item in variations
        ]
        running += [
            Execution(family.implementation(item.implementation), suffix=f"+{item.name}", fault=item) for item in faults
        ]
        return FamilyPlan(family, tuple(running), (Pair(reference.name, execution.name, "fresh"),))

    command = f"parity trace {family.name} --port {traced.short_name} --clip {chosen.id}"
    run = record(plan_for, [chosen], runs, listener, command + (f" --plant {plant}" if plant else ""))
    expected, obtained = (observation_of(run, item.name, chosen.id) for item in (reference, execution))
    floors, unusable = _floors(run, reference, variations, expected, chosen.id)
    alone = optional_observation(run, f"{traced.name}+isolated", chosen.id)
    taps = classify(compare_taps(expected, obtained, floors, stages, alone))
    faulted = {item.name: optional_observation(run, f"{item.implementation}+{item.name}", chosen.id) for item in faults}
    differs = any(item.status not in ("agrees", "") for item in taps)
    described = {item.name: item.description for item in faults}
    explanations = explain(expected, obtained, faulted, described) if differs else []
    content = _content(family, traced, chosen, taps, explanations, obtained, [*unusable, *_silent(faulted)], run)
    run.write_json("trace.json", content)
    return content


def _content(
    family: Family,
    port: Implementation,
    clip: Clip,
    taps: Sequence[Tap],
    explanations: Sequence[Explanation],
    obtained: Observation,
    notes: Iterable[str],
    run: Run,
) -> dict[str, Any]:
    no_taps = [] if obtained.taps else [f"{port.name} gives no taps on this clip: only its outputs could be compared"]
    return {
        "family": family.name,
        "port": port.name,
        "clip": clip.id,
        "taps": [_json(item) for item in taps],
        "first_divergence": first_divergence(taps),
        "explanations": [vars(item) for item in explanations],
        "convincing": is_convincing(explanations),
        "has_taps": bool(obtained.taps),
        "notes": [*no_taps, *notes],
        "run": run.id,
    }


def _json(tap: Tap) -> dict[str, Any]:
    """A row without infinities and NaN, which JSON does not know: null, with the note."""
    row = {key: value for key, value in vars(tap).items() if key != "inputs"}
    finite = {key: value for key, value in row.items() if not isinstance(value, float) or math.isfinite(value)}
    return {**dict.fromkeys(row), **finite}


def exit_status(content: Mapping[str, Any]) -> int:
    """0 when nothing diverges, 1 when a divergence was found, 2 when that could not be judged."""
    statuses = {row["status"] for row in content["taps"]}
    if not content["has_taps"]:
        return 2
    if content["first_divergence"] is not None:
        return 1
    return 0 if statuses == {"agrees"} else 2


def _floors(
    run: Run, reference: Execution, variations: Sequence[Variation], expected: Observation, clip: str
) -> tuple[dict[str, float], list[str]]:
    """The floor of each tap and output, and which variations could not tell."""
    worst: dict[str, float] = {}
    unusable = []
    left = named_tensors(expected)
    for variation in variations:
        name = f"{reference.name}+{variation.name}"
        varied = optional_observation(run, name, clip)
        if varied is None:
            unusable.append(f"{name} gives no floor: {outcome_of(run, name)}")
            continue
        right = named_tensors(varied)
        for tap in left:
            error, _ = relative_error(left[tap], right.get(tap))
            if error is not None and math.isfinite(error):
                worst[tap] = max(worst.get(tap, 0.0), error)
    return {tap: max(FLOOR_FACTOR * error, RESOLUTION) for tap, error in worst.items()}, unusable


def _variations(family: Family, reference: Execution) -> list[Variation]:
    """Those that apply to the reference, whatever variant it runs as; one that cannot is noted as giving no floor."""
    name = reference.implementation.name
    own = [item for item in family.variations if not item.implementations or name in item.implementations]
    return own or list(DEFAULT_VARIATIONS)


def _taken(clip: Clip, *executions: Execution) -> bool:
    return all(item.accepts(clip.rate_hz) for item in executions)


def _named(stimuli: Sequence[Clip], clip: str) -> Clip:
    for item in stimuli:
        if item.id == clip:
            return item
    raise ParityError(clip, "no such clip that both sides take", f"one of {', '.join(item.id for item in stimuli)}")


def _worst_clip(
    family: Family, reference: Execution, port: Execution, listener: Listener, runs: Path, clips: Path | None
) -> Clip:
    """The clip with the largest difference of the outputs, among those with taps when any has."""
    request = Request((family,), clips=clips, against="fresh", runs=runs, command=f"parity trace {family.name}")
    plan = FamilyPlan(family, (reference, port), (Pair(reference.name, port.name, "fresh"),))
    run = observe_only(request, listener, [plan])
    ranked = []
    for clip in run.read_inputs(family.name):
        expected, obtained = (optional_observation(run, item.name, clip.id) for item in (reference, port))
        if expected and obtained:
            distance = max(_distance(expected, obtained, name) for name in load_task(family.task).GOLDEN_TENSORS)
            ranked.append((bool(expected.taps and obtained.taps), distance, clip))
    if not ranked:
        reason = outcome_of(run, port.name) or outcome_of(run, reference.name) or "no clip that both sides take"
        raise ParityError(port.name, reason, "an observation of both sides", "see `parity doctor`")
    return max(ranked, key=lambda item: item[:2])[2]  # the first of equals


def _distance(expected: Observation, obtained: Observation, name: str) -> float:
    if name not in expected.tensors or name not in obtained.tensors:
        return math.inf
    try:
        error = compare_tensors(expected.tensors[name], obtained.tensors[name])
    except NotComparable:
        return math.inf
    return math.inf if math.isnan(error.max_abs) else error.max_abs


def _silent(faulted: Mapping[str, Observation | None]) -> list[str]:
    return [f"fault {name} gave nothing to explain with" for name, found in faulted.items() if found is None]
