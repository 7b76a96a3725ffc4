"""Runs that a diagnosis makes for itself: its own executions, on its own clips, stored whole like any other run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.checkpoints import find_checkpoints
from harness.clips import Clip
from harness.errors import ParityError
from harness.observations import Observation
from harness.observe import Listener, observe
from harness.plan import FamilyPlan
from harness.provenance import provenance
from harness.runs import Run, new_run
from harness.tensorfile import load_tensors


def record(
    plan_for: Callable[[Run], FamilyPlan], clips: Sequence[Clip], runs: Path, listener: Listener, command: str
) -> Run:
    """Observe one family's plan on exactly these clips; what is observed is kept when the user interrupts.

    plan_for: makes the plan when the run's folder is known. Raises ParityError when the run cannot be written.
    """
    run = new_run(runs)
    plan = plan_for(run)
    checkpoints = find_checkpoints([plan.family])
    by_family: Mapping[str, list[Clip]] = {plan.family.name: list(clips)}
    content = {"command": command, "against": "fresh", "clips": command, "plans": [{**plan.record(), "goldens": {}}]}
    try:
        run.write_json("run.json", content)
        try:
            observe(run, [plan], dict(by_family), checkpoints, listener)
        finally:
            run.write_json("provenance.json", provenance(dict(by_family), run.read_json("implementations.json")))
    except OSError as error:
        reason = f"could not be written ({error.strerror})"
        raise ParityError(run.folder, reason, "space for a run", "free space, or use --runs") from error
    except KeyboardInterrupt:
        run.finish()
        raise
    return run.finish()


def outcome_of(run: Run, name: str) -> str:
    """Why an execution did not do its work, empty when it did."""
    outcome = next(item for item in run.read_json("implementations.json") if item["name"] == name)
    return "" if outcome["status"] == "ran" else f"{outcome['status']}: {outcome['reason']}"


def observation_of(run: Run, name: str, clip: str) -> Observation:
    """What an execution gave for a clip. Raises ParityError, with the execution's own reason, when it gave nothing."""
    observation = optional_observation(run, name, clip)
    if observation is None:
        reason = outcome_of(run, name) or "no observation"
        raise ParityError(f"{name}, clip {clip}", reason, "an observation", "see `parity doctor`")
    return observation


def optional_observation(run: Run, name: str, clip: str) -> Observation | None:
    """What an execution gave for a clip, None for nothing.

    The worker that wrote it checked it; read without the check for NaN, since where NaN begins is worth finding.
    """
    folder = run.observation(name, clip)
    if not folder.is_dir():
        return None
    head = json.loads((folder / "observation.json").read_text(encoding="utf-8"))
    kept = ("implementation", "clip", "clip_digest", "version", "variant", "checkpoint_digest", "fault")
    tensors = load_tensors(folder / "tensors.safetensors")
    taps, warnings = tuple(head["taps"]), tuple(head["warnings"])
    return Observation(**{key: head[key] for key in kept}, tensors=tensors, taps=taps, warnings=warnings)
