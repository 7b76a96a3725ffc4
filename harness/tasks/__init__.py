"""What families do: one module per task.

A task module offers
    METRICS        metric name → unit, every metric its `compare` may yield
    TASK           the task's name
    stimuli(clips, with_signals)   the inputs made of a clip set: prepared clips and the task's own test signals
    observe(implementation, clip)  runs in the worker; returns `Outputs`
    compare(reference, port, clip) yields measurements; with port = reference it yields exactly what can be expected
    GOLDEN_TENSORS the tensors that a frozen golden keeps
and, where one side's product can be handed to the other,
    EXCHANGED      the tensors that are handed over
    observe_given(implementation, given)  runs in the worker on the other side's; its `Outputs` arrive in `compare` as
                   `given/…` among the tensors of the side that made them
and, where speed has more than one figure,
    observe_timed(implementation, clip)  in place of `observe` for `nox -s bench`: `timings` by way, and `peak_mb`
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from harness.clips import Clip
from harness.measurements import Measurement
from harness.observations import Observation, Outputs


class Task(Protocol):
    """The shape of a task module."""

    TASK: str
    METRICS: Mapping[str, str]
    GOLDEN_TENSORS: Sequence[str]

    def stimuli(self, clips: Iterable[Clip]) -> list[Clip]:
        """The inputs made of these clips."""

    def signals(self) -> list[Clip]:
        """The task's own test signals."""

    def observe(self, implementation: Any, clip: Clip) -> Outputs:
        """Run one implementation on one clip."""

    def compare(self, reference: Observation, port: Observation, clip: Clip) -> Iterator[Measurement]:
        """Measure how far the port is from the reference."""


def load_task(name: str) -> Task:
    """The module of a task, by the task's name (`voice-activity`)."""
    module: Any = importlib.import_module(f"harness.tasks.{name.replace('-', '_')}")
    return module  # type: ignore[no-any-return]


def exchanged_by(task: Task) -> Sequence[str]:
    """The tensors that are handed to the other side, none for most tasks."""
    return getattr(task, "EXCHANGED", ())
