"""Frozen goldens: accepted observations of the references for the default clips.

They lie in `golden/<family>/<implementation>/<clip>/` as observation folders whose `golden` field says why, when and on
what machine they were frozen. They are compared within the gates, never by digest, because a matrix product rounds
differently on another processor.
"""

from __future__ import annotations

import dataclasses
import datetime
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.clips import Clip
from harness.compare import compare_clip
from harness.errors import ParityError
from harness.family import Family
from harness.observations import Observation, read_observation, write_observation
from harness.plan import FROZEN, Execution, FamilyPlan, Pair
from harness.provenance import cpu_model
from harness.runs import Run
from harness.tasks import load_task


@dataclass(frozen=True)
class GoldenState:
    """Where the goldens of one reference stand: names of clips by state."""

    implementation: str
    present: tuple[str, ...]
    missing: tuple[str, ...]
    orphans: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Frozen:
    """One golden that was written. change: the largest differences from the former one by metric, empty when new."""

    implementation: str
    clip: str
    change: Mapping[str, float]
    is_new: bool


class Goldens:
    """The goldens under one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, reference: Execution, clip: str) -> Path:
        """Where one golden lies."""
        return self.root / reference.name / clip

    def expected(self, reference: Execution, clips: Iterable[Clip]) -> list[Clip]:
        """The clips for which a reference must have a golden."""
        return [clip for clip in clips if clip.golden and reference.accepts(clip.rate_hz)]

    def has_any(self, reference: Execution, clips: Iterable[Clip]) -> bool:
        """Whether a reference has a golden for at least one of these clips."""
        return any(self.folder(reference, clip.id).is_dir() for clip in self.expected(reference, clips))

    def state(self, reference: Execution, clips: Sequence[Clip]) -> GoldenState:
        """Which goldens are there, which are missing, which belong to no clip."""
        names = [clip.id for clip in self.expected(reference, clips)]
        parent = self.root / reference.name
        found = sorted(path.name for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []
        reasons = {str(read_observation(parent / name).golden.get("reason", "")) for name in found}
        return GoldenState(
            reference.name,
            tuple(name for name in names if name in found),
            tuple(name for name in names if name not in found),
            tuple(name for name in found if name not in names),
            tuple(sorted(reasons)),
        )

    def copy_into(self, run: Run, plan: FamilyPlan, clips: Sequence[Clip]) -> None:
        """Store the goldens that a plan compares with in its run, which is whole without this folder."""
        for name in {pair.reference for pair in plan.pairs if pair.kind == "frozen"}:
            for clip in clips:
                source = self.root / name.removesuffix(FROZEN) / clip.id
                if clip.golden and source.is_dir():
                    shutil.copytree(source, run.observation(name, clip.id))

    def freeze(
        self,
        run: Run,
        family: Family,
        references: Iterable[Execution],
        clips: Sequence[Clip],
        reason: str,
        only_missing: bool = False,
    ) -> list[Frozen]:
        """Write the fresh observations of a run as goldens; returns what was written.

        only_missing: write what there is and no golden exists for, and leave the others. Raises ParityError without a
        reason, or when a reference of the run has no observation of an expected clip.
        """
        if not reason.strip():
            raise ParityError(self.root, "no reason given", "why these observations are accepted", "add --reason")
        written = []
        for item in references:
            for clip in self.expected(item, clips):
                target = self.folder(item, clip.id)
                source = run.observation(item.name, clip.id)
                if only_missing and (target.is_dir() or not source.is_dir()):
                    continue
                if not source.is_dir():
                    raise ParityError(source, f"{item.name} did not observe {clip.id}", remedy="run it, then freeze")
                change = self._change(run, family, item, clip) if target.is_dir() else {}
                self._write(target, read_observation(source), load_task(family.task).GOLDEN_TENSORS, reason)
                written.append(Frozen(item.name, clip.id, change, is_new=not change))
        return written

    def _change(self, run: Run, family: Family, item: Execution, clip: Clip) -> dict[str, float]:
        """The largest value of every metric between the former golden and the fresh observation."""
        former = run.observation(item.name + FROZEN, clip.id)
        if not former.is_dir():
            shutil.copytree(self.folder(item, clip.id), former)
        pair = Pair(item.name + FROZEN, item.name, "frozen")
        change: dict[str, float] = {}
        for measurement in compare_clip(run, load_task(family.task), pair, clip):
            change[measurement.metric] = max(change.get(measurement.metric, 0.0), measurement.value)
        return change

    def _write(self, target: Path, observation: Observation, kept: Sequence[str], reason: str) -> None:
        golden = {
            "reason": reason,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "cpu": cpu_model(),
        }
        tensors = {name: observation.tensors[name] for name in kept if name in observation.tensors}
        frozen = dataclasses.replace(observation, tensors=tensors, taps=(), timings={}, golden=golden)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_observation(target, frozen)
        except OSError as error:
            raise ParityError(target, f"not writable ({error.strerror})", "a writable golden folder") from error
