"""`nox -s bench`: speed of ports against their reference, and what the harness itself costs.

Conventions: times are seconds of computation per second of audio, the median over the clips after the first (which pays
for what a package loads on first use), in workers of one thread, one worker at a time. A ratio is reference over port,
so that above 1 the port is faster; its interval is a paired bootstrap over the clips. Overhead is the wall time of a
whole `parity run` with its report less the time inside the implementations (loading and observing), as a share of the
wall time.

A task with `observe_timed` has a table of its own instead: each way by which an implementation can be used, with one
thread and with two, as the median over the clips of the fastest of three passes, and the process's peak memory.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table

from harness import pipeline
from harness.clips import Clip
from harness.console import listener
from harness.families import load_families
from harness.family import Family, Replacement, Variation
from harness.metrics.timing import paired_ratio
from harness.observations import read_observation
from harness.observe import Listener
from harness.plan import Execution, FamilyPlan
from harness.provenance import PROJECT
from harness.runs import Run
from harness.tasks import load_task
from reports import write_reports

PEAK = "peak_mb"
TIMED_CLIPS = 3
REAL_CLIPS = PROJECT.parent / "shared" / "clips" / "librispeech-20"


def main() -> int:
    """Run every family on the real clips when they lie beside the project, else on the golden ones, and print."""
    clips = REAL_CLIPS if REAL_CLIPS.is_dir() else None
    request = pipeline.Request(tuple(load_families(sys.argv[1:])), clips=clips, command="bench")
    console = Console(width=120)
    with listener(quiet=True) as progress:
        timed = pipeline.observe_only(replace(request, against="fresh", start_ahead=False), progress)
        started = time.perf_counter()
        run, _ = pipeline.execute(request, progress)
        write_reports(run)
        wall_s = time.perf_counter() - started
    for family in request.families:
        if hasattr(load_task(family.task), "observe_timed"):
            console.print(_ways_table(family, request, progress))
            continue
        console.print(_speed_table(timed, family.name, [item.name for item in family.implementations]))
    inside_s = sum(item["load_s"] + item["inside_s"] for item in run.read_json("implementations.json"))
    overhead = (wall_s - inside_s) / wall_s
    console.print(f"wall {wall_s:.1f} s, inside the implementations {inside_s:.1f} s, overhead {overhead:.1%}")
    return 0


def _speed_table(run: Run, family: str, implementations: Iterable[str]) -> Table:
    """Seconds per audio second of the main output, and the paired ratio to the first implementation."""
    clips = [clip for clip in run.read_inputs(family) if clip.scope == "clips"]
    table = Table("implementation", "s per audio second", "reference / port", "95 % interval", title=family)
    baseline: dict[str, float] = {}
    for name in implementations:
        observed = [clip for clip in clips if run.observation(name, clip.id).is_dir()]
        speeds = {clip.id: _seconds(run, name, clip.id) / clip.duration_s for clip in observed[1:]}
        baseline = baseline or speeds
        if common := [clip for clip in speeds if clip in baseline]:
            ratio = paired_ratio([speeds[clip] for clip in common], [baseline[clip] for clip in common], seed=0)
            interval = f"{ratio.low:.2f} to {ratio.high:.2f}"
            table.add_row(name, f"{statistics.median(speeds.values()):.2e}", f"{ratio.ratio:.2f}", interval)
    return table


def _ways_table(family: Family, request: pipeline.Request, progress: Listener) -> Table:
    """Every way of using each implementation, with one and with two threads."""
    module = load_task(family.task).__name__  # type: ignore[attr-defined]
    change = Replacement(f"{module}:observe", replacement=f"{module}:observe_timed")
    variations = [Variation(f"threads-{count}", "timed", threads=count, change=change) for count in (1, 2)]
    running = [
        Execution(item, suffix=f"+{variation.name}", variation=variation)
        for variation in variations
        for item in family.implementations
    ]
    only = tuple(clip.id for clip in pipeline.stimuli_of([family], request.clips)[family.name] if clip.scope == "clips")
    timed = replace(request, families=(family,), against="fresh", start_ahead=False, only=only[:TIMED_CLIPS])
    run = pipeline.observe_only(timed, progress, [FamilyPlan(family, tuple(running), ())])
    clips = [clip for clip in run.read_inputs(family.name) if clip.scope == "clips"]
    found = {item.name: [_timings(run, item.name, clip) for clip in clips] for item in running}
    ways = dict.fromkeys(way for all_clips in found.values() for timings in all_clips for way in timings)
    table = Table("implementation", *(way if way == PEAK else f"{way}, s/s" for way in ways), title=family.name)
    for name, all_clips in found.items():
        cells = [[timings[way] for timings in all_clips if way in timings] for way in ways]
        table.add_row(name, *(f"{statistics.median(values):.3g}" if values else "–" for values in cells))
    return table


def _timings(run: Run, implementation: str, clip: Clip) -> dict[str, float]:
    """Seconds per audio second by way, and the peak memory as it is; empty when it did not run."""
    if not run.observation(implementation, clip.id).is_dir():
        return {}
    timings = read_observation(run.observation(implementation, clip.id)).timings
    return {way: value if way == PEAK else value / clip.duration_s for way, value in timings.items()}


def _seconds(run: Run, implementation: str, clip: str) -> float:
    timings: Any = read_observation(run.observation(implementation, clip)).timings
    return float(sum(value for name, value in timings.items() if not name.startswith("streamed")))


if __name__ == "__main__":
    sys.exit(main())
