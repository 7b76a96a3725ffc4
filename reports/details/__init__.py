"""How a clip of each task is drawn: one module per task, listed here by the task's name.

A task's module offers
    LEAD           the metric that orders clips from worst to best
    draw(assets, clip, sides, rows)   panels that show where the port departs from the reference; rows are what was
                   measured on the clip
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.clips import Clip
from harness.tasks import exchanged_by, load_task
from reports.audio import Assets
from reports.details import codec, resampler, voice_activity
from reports.details.panels import Panel, Sides
from reports.stored import Row

Draw = Callable[[Assets, Clip, Sides, Sequence[Row]], list[Panel]]


@dataclass(frozen=True)
class Drawing:
    """A task's way of drawing.

    lead: the metric that orders its clips from worst to best. exchanged: tensors that the sides hand to each other.
    """

    lead: str
    draw: Draw
    exchanged: Sequence[str] = ()


def _nothing(assets: Assets, clip: Clip, sides: Sides, rows: Sequence[Row]) -> list[Panel]:
    return [Panel("Not drawn", note="This version of the project has no drawing for the family's task.")]


DRAWINGS = {
    "codec": Drawing(codec.LEAD, codec.draw, exchanged_by(load_task("codec"))),
    "resampler": Drawing(resampler.LEAD, resampler.draw),
    "voice-activity": Drawing(voice_activity.LEAD, voice_activity.draw),
}
UNDRAWN = Drawing("", _nothing)
