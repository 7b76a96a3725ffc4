"""The observe phase: every implementation, in its own process, on every clip.

The next implementation's worker loads while the present one serves. Whatever a worker does ends only its own part; the
observations it had already written are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from harness.checkpoints import Checkpoint
from harness.clips import Clip
from harness.errors import ParityError
from harness.observations import read_observation
from harness.plan import GIVEN, REPEAT, Execution, FamilyPlan
from harness.runners.process import Worker, WorkerLost
from harness.runs import Run, clip_fields
from harness.tasks import exchanged_by, load_task

FAILED_CLIPS_IN_REASON = 3


class Listener(Protocol):
    """Who is told of the progress."""

    def started(self, implementation: str, clips: int) -> None:
        """An implementation begins; `clips` observations are to be made."""

    def advanced(self, implementation: str, clip: str) -> None:
        """One observation is done, or has failed."""

    def ended(self, implementation: str, status: str, reason: str) -> None:
        """An implementation has ended."""


@dataclass
class Outcome:
    """How one implementation ended. status: `ran`, `not-run` or `error`. inside_s: seconds spent in it. failed: reason
    by clip."""

    name: str
    role: str
    status: str = "ran"
    reason: str = ""
    version: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    checkpoint_digest: str = ""
    fault: str = ""
    threads: int = 1
    load_s: float = 0.0
    inside_s: float = 0.0
    clips: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    last_lines: list[str] = field(default_factory=list)


def observe(
    run: Run,
    plans: Sequence[FamilyPlan],
    clips: dict[str, list[Clip]],
    checkpoints: Mapping[str, Checkpoint],
    listener: Listener,
    start_ahead: bool = True,
) -> None:
    """Run every planned implementation on its family's clips; write observations and `implementations.json`.

    clips: the stimuli of each family by its name; checkpoints: of those that load one. start_ahead: load the next
    implementation while the present one serves. On KeyboardInterrupt what is done is kept, the rest is marked not-run,
    and the exception goes on.
    """
    jobs = [(plan, execution) for plan in plans for execution in plan.running]
    outcomes = [_unstarted(execution) for _, execution in jobs]
    try:
        for plan in plans:
            run.write_inputs(plan.family.name, clips[plan.family.name])
        with ExitStack() as stack:
            workers = _workers(jobs, checkpoints, stack, start_ahead)
            for (plan, execution), worker, outcome in zip(jobs, workers, outcomes, strict=True):
                _serve(run, plan, execution, worker, outcome, clips[plan.family.name], listener)
                worker.stop()
            _hand_back(run, plans, checkpoints, outcomes, clips)
    finally:
        run.write_json("implementations.json", [vars(outcome) for outcome in outcomes])


def _unstarted(execution: Execution) -> Outcome:
    return Outcome(
        execution.name,
        execution.implementation.role,
        status="not-run",
        reason="the run ended before it",
        fault=execution.fault.name if execution.fault else "",
        threads=execution.threads,
    )


def _workers(
    jobs: Sequence[tuple[FamilyPlan, Execution]],
    checkpoints: Mapping[str, Checkpoint],
    stack: ExitStack,
    start_ahead: bool,
) -> Iterator[Worker]:
    """Workers in order, each started one job before it is needed, or when it is."""

    def start(index: int) -> Worker:
        plan, execution = jobs[index]
        return stack.enter_context(Worker(execution, plan.family.task, checkpoints.get(plan.family.name)))

    started: deque[Worker] = deque()
    for index in range(len(jobs)):
        last = min(index + start_ahead, len(jobs) - 1)
        started.extend(start(at) for at in range(index + len(started), last + 1))
        yield started.popleft()


def _serve(
    run: Run,
    plan: FamilyPlan,
    execution: Execution,
    worker: Worker,
    outcome: Outcome,
    clips: Sequence[Clip],
    listener: Listener,
) -> None:
    taken = [clip for clip in clips if execution.accepts(clip.rate_hz)]
    # The second run goes backwards, so that state left over by one clip meets another neighbour.
    passes = [("", taken)] + ([(REPEAT, taken[::-1])] if execution.repeats else [])
    listener.started(execution.name, sum(len(part) for _, part in passes))
    outcome.reason = "interrupted"
    try:
        ready = worker.wait_ready()
        if not _note_ready(outcome, ready):
            return
        for suffix, part in passes:
            for clip in part:
                _ask(run, execution, worker, outcome, clip, suffix)
                if not suffix and (product := exchanged(run, plan, execution.name, clip)):
                    _ask(run, execution, worker, outcome, clip, GIVEN, product)
                listener.advanced(execution.name, clip.id)
        outcome.status, outcome.reason = ("error", _summary(outcome)) if outcome.failed else ("ran", "")
    except WorkerLost as error:
        outcome.status, outcome.reason = "error", str(error)
    finally:
        outcome.last_lines = worker.last_lines
        listener.ended(execution.name, outcome.status, outcome.reason)


def _note_ready(outcome: Outcome, ready: dict[str, Any]) -> bool:
    if "unavailable" in ready:
        outcome.status, outcome.reason = "not-run", ready["unavailable"]
    elif "failed" in ready:
        outcome.status, outcome.reason = "error", f"did not load: {ready['failed']}"
    else:
        for key in ("version", "versions", "checkpoint_digest", "load_s"):
            setattr(outcome, key, ready[key])
        return True
    return False


def exchanged(run: Run, plan: FamilyPlan, port: str, clip: Clip) -> Path | None:
    """The reference's observation whose product a port is to be given too, None when it made the same itself."""
    names = exchanged_by(load_task(plan.family.task))
    bases = [pair.reference for pair in plan.pairs if pair.port == port and pair.kind == "fresh"]
    folders = [run.observation(side, clip.id) for side in (*bases[:1], port)]
    if not names or len(folders) < 2 or not all(folder.is_dir() for folder in folders):
        return None
    left, right = (read_observation(folder).tensors for folder in folders)
    usable = all(name in side for name in names for side in (left, right))
    return folders[0] if usable and not all(np.array_equal(left[name], right[name]) for name in names) else None


def _hand_back(
    run: Run,
    plans: Sequence[FamilyPlan],
    checkpoints: Mapping[str, Checkpoint],
    outcomes: Sequence[Outcome],
    clips: Mapping[str, Sequence[Clip]],
) -> None:
    """Let each reference use what its ports made otherwise than itself."""
    by_name = {outcome.name: outcome for outcome in outcomes}
    for plan in plans if any(plan.both_ways for plan in plans) else ():
        running = {item.name: item for item in plan.running}
        for base in plan.references:
            asked = [
                (clip, pair.port)
                for pair in plan.pairs
                if (pair.reference, pair.kind) == (base.name, "fresh") and pair.port in running
                for clip in clips[plan.family.name]
                if exchanged(run, plan, pair.port, clip)
            ]
            if not asked:
                continue
            with Worker(base, plan.family.task, checkpoints.get(plan.family.name)) as worker:
                try:
                    if not _note_ready(by_name[base.name], worker.wait_ready()):
                        continue
                    for clip, port in asked:
                        suffix = f"{GIVEN}-{port.partition('/')[2]}"
                        _ask(run, base, worker, by_name[base.name], clip, suffix, run.observation(port, clip.id))
                except WorkerLost as error:
                    by_name[base.name].status, by_name[base.name].reason = "error", str(error)


def _ask(
    run: Run,
    execution: Execution,
    worker: Worker,
    outcome: Outcome,
    clip: Clip,
    suffix: str,
    given: Path | None = None,
) -> None:
    request = {
        "clip": clip_fields(clip),
        "clip_digest": clip.digest,
        "samples": str(run.input_path(execution.implementation.family, clip.id)),
        "out": str(run.observation(execution.name + suffix, clip.id)),
    }
    if given:
        request["given"] = str(given)
    answer = worker.ask(request, execution.implementation.timeout_s)
    if "unwritable" in answer:
        raise ParityError(answer["unwritable"], "the run's folder cannot be written", remedy="free or choose space")
    if "done" in answer:
        outcome.clips += not given
        outcome.inside_s += answer["inside_s"]
    else:
        outcome.failed[clip.id + suffix] = str(answer.get("failed", answer))


def _summary(outcome: Outcome) -> str:
    shown = list(outcome.failed.items())[:FAILED_CLIPS_IN_REASON]
    more = len(outcome.failed) - len(shown)
    text = "; ".join(f"{clip}: {reason}" for clip, reason in shown)
    return text + (f"; and {more} more clips" if more else "")
