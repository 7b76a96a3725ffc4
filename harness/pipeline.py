"""A whole run: observe, compare, judge, report, in one direction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.checkpoints import Checkpoint, find_checkpoints
from harness.clips import Clip, load_clips, refuse_duplicates
from harness.compare import compare
from harness.errors import ParityError
from harness.family import Family
from harness.gates import Gate, load_gates
from harness.goldens import Goldens
from harness.observe import Listener, observe
from harness.plan import PROJECT_CLIPS, Against, Execution, FamilyPlan, plan_family
from harness.provenance import PROJECT, provenance
from harness.runs import Run, new_run
from harness.tasks import Task, load_task
from harness.verdicts import judge

GOLDEN = PROJECT / "golden"


@dataclass(frozen=True)
class Request:
    """What the user asks of a run.

    ports: names, all when empty. clips: a folder, None for the project's own set. references_only: run no port.
    start_ahead: load the next implementation while the present one serves; off where speed is measured. only: ids of
    the recordings to take, all when empty.
    write_missing: write goldens that are missing.
    """

    families: tuple[Family, ...]
    ports: tuple[str, ...] = ()
    reference: str | None = None
    clips: Path | None = None
    against: Against = "both"
    faults: tuple[str, ...] = ()
    runs: Path = field(default_factory=lambda: Path("runs"))
    golden: Path = GOLDEN
    gates: Path = GOLDEN / "gates"
    command: str = ""
    references_only: bool = False
    start_ahead: bool = True
    write_missing: bool = True
    only: tuple[str, ...] = ()


def gates_of(families: Iterable[Family], folder: Path) -> dict[str, list[Gate]]:
    """The gates of each family by its name."""
    return {family.name: load_gates(folder, family, load_task(family.task).METRICS) for family in families}


def stimuli_of(families: Iterable[Family], folder: Path | None) -> dict[str, list[Clip]]:
    """The inputs of each family: the clips of a folder (the project's own when None) and the test signals."""
    default = load_clips(GOLDEN / "clips", golden=True)
    clips = default
    if folder is not None and folder.resolve() != (GOLDEN / "clips").resolve():
        clips = [*load_clips(folder), *(clip for clip in default if clip.scope == "signals")]
    return {family.name: _stimuli(load_task(family.task), clips) for family in families}


def _stimuli(task: Task, clips: Sequence[Clip]) -> list[Clip]:
    made = [replace(signal, id=f"made-{signal.id}") for signal in task.signals()]
    stimuli = [*task.stimuli(clips), *made]
    refuse_duplicates("clips and test signals", (clip.id for clip in stimuli))
    return stimuli


def execute(request: Request, listener: Listener) -> tuple[Run, dict[str, Any]]:
    """Make a run and judge it; returns the run and its verdict. The run is whole, or stays under its temporary name."""
    gates = gates_of(request.families, request.gates)
    with _recording(request) as (run, plans, clips, goldens, checkpoints):
        _observe(run, request, plans, clips, checkpoints, listener)
        _write_missing(run, request, plans, clips, goldens)
        verdict = rejudge(run, request.families, gates, again=True)
    return run, verdict


def observe_only(request: Request, listener: Listener, plans: Sequence[FamilyPlan] | None = None) -> Run:
    """Make a run that is observed and no more. plans: what to execute, else what the request's options mean."""
    with _recording(request, plans) as (run, made, clips, _, checkpoints):
        _observe(run, request, made, clips, checkpoints, listener)
    return run


Recording = tuple[Run, Sequence[FamilyPlan], dict[str, list[Clip]], Goldens, Mapping[str, Checkpoint]]


@contextmanager
def _recording(request: Request, plans: Sequence[FamilyPlan] | None = None) -> Iterator[Recording]:
    """A new run with its inputs and goldens stored; it gets its name at the end, or when the user interrupts."""
    clips = {
        family: [clip for clip in made if not request.only or clip.scope == "signals" or clip.id in request.only]
        for family, made in stimuli_of(request.families, request.clips).items()
    }
    goldens = Goldens(request.golden)
    if plans is None:
        plans = [_plan(request, family, clips[family.name], goldens) for family in request.families]
    checkpoints = find_checkpoints(plan.family for plan in plans)  # weights that are not there should not cost a run
    run = new_run(request.runs)
    try:
        _write_request(run, request, plans, clips, goldens)
        for plan in plans:
            goldens.copy_into(run, plan, clips[plan.family.name])
        yield run, plans, clips, goldens, checkpoints
    except OSError as error:
        raise ParityError(
            run.folder, f"could not be written ({error.strerror})", "space for a run", "free space, or use --runs"
        ) from error
    except KeyboardInterrupt:
        run.finish()
        raise
    run.finish()


def _observe(
    run: Run,
    request: Request,
    plans: Sequence[FamilyPlan],
    clips: dict[str, list[Clip]],
    checkpoints: Mapping[str, Checkpoint],
    listener: Listener,
) -> None:
    try:
        observe(run, plans, clips, checkpoints, listener, request.start_ahead)
    finally:
        run.write_json("provenance.json", provenance(clips, run.read_json("implementations.json")))


def rejudge(
    run: Run, families: Sequence[Family], gates: Mapping[str, Sequence[Gate]], again: bool = False
) -> dict[str, Any]:
    """Judge a stored run, comparing its observations first when `again` is set or they never were."""
    by_name = {family.name: family for family in families}
    if again or not run.measurements.is_file():
        compare(run, by_name)
    return judge(run, by_name, gates)


def _plan(request: Request, family: Family, clips: Sequence[Clip], goldens: Goldens) -> FamilyPlan:
    plan = plan_family(
        family,
        request.ports,
        request.reference,
        request.against,
        request.faults,
        # Goldens are of the fixture's weights.
        lambda reference: not _chooses_weights(family) and goldens.has_any(reference, clips),
        request.references_only,
    )
    if not plan.pairs:
        where = request.golden / family.name
        raise ParityError(where, "no golden for these clips", "a frozen reference", "use --against fresh, or freeze")
    return plan


def _write_request(
    run: Run, request: Request, plans: Sequence[FamilyPlan], clips: Mapping[str, Sequence[Clip]], goldens: Goldens
) -> None:
    def states(plan: FamilyPlan) -> dict[str, dict[str, list[str]]]:
        found = [goldens.state(item, clips[plan.family.name]) for item in _frozen_references(request, plan)]
        return {
            state.implementation: {"present": list(state.present), "missing": list(state.missing)} for state in found
        }

    run.write_json(
        "run.json",
        {
            "command": request.command,
            "against": request.against,
            "clips": str(request.clips) if request.clips else PROJECT_CLIPS,
            "plans": [{**plan.record(), "goldens": states(plan)} for plan in plans],
        },
    )


def _chooses_weights(family: Family) -> bool:
    return bool(family.checkpoint and family.checkpoint.chosen)


def _frozen_references(request: Request, plan: FamilyPlan) -> list[Execution]:
    """The references whose goldens this run speaks of."""
    return plan.references if request.against != "fresh" and not _chooses_weights(plan.family) else []


def _write_missing(
    run: Run, request: Request, plans: Sequence[FamilyPlan], clips: Mapping[str, Sequence[Clip]], goldens: Goldens
) -> None:
    """A missing golden is written, for review; the run that wrote it fails."""
    for plan in plans:
        if request.write_missing and not request.faults:
            references = _frozen_references(request, plan)
            goldens.freeze(run, plan.family, references, clips[plan.family.name], "first observation", True)
