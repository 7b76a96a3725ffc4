"""`nox -s bench`: speed of ports against their reference, and what the harness itself costs, from one run.

Conventions: times are seconds of computation per second of audio, summed over the clips, in workers of one thread;
ratios are reference over port, so that above 1 the port is faster. Overhead is the wall time of the whole command less
the time inside the implementations (loading and observing), as a share of the wall time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from harness import pipeline
from harness.console import listener
from harness.families import load_families
from harness.metrics.timing import paired_ratio
from harness.observations import read_observation
from harness.provenance import PROJECT
from harness.runs import Run
from reports import write_reports

REAL_CLIPS = PROJECT.parent / "shared" / "clips" / "librispeech-20"


def main() -> int:
    """Run every family on the real clips when they lie beside the project, else on the golden ones, and print."""
    clips = REAL_CLIPS if REAL_CLIPS.is_dir() else None
    families = tuple(load_families(sys.argv[1:]))
    started = time.perf_counter()
    with listener(quiet=True) as progress:
        run, _ = pipeline.execute(pipeline.Request(families, clips=clips, command="bench"), progress)
    write_reports(run)
    wall_s = time.perf_counter() - started
    console = Console(width=120)
    for family in families:
        console.print(_speed_table(run, family.name, [item.name for item in family.implementations]))
    outcomes = run.read_json("implementations.json")
    inside_s = sum(item["load_s"] + item["inside_s"] for item in outcomes)
    overhead = (wall_s - inside_s) / wall_s
    console.print(f"wall {wall_s:.1f} s, inside the implementations {inside_s:.1f} s, overhead {overhead:.1%}")
    return 0


def _speed_table(run: Run, family: str, implementations: Iterable[str]) -> Table:
    """Seconds per audio second of the main output of every clip, and the paired ratio to the first implementation."""
    clips = [clip for clip in run.read_inputs(family) if clip.scope == "clips"]
    table = Table("implementation", "s per audio second", "reference / port", "95 % interval", title=family)
    baseline: dict[str, float] = {}
    for name in implementations:
        seconds = {clip.id: _seconds(run, name, clip.id) for clip in clips if _observed(run, name, clip.id)}
        if not seconds:
            continue
        baseline = baseline or seconds
        common = [clip for clip in seconds if clip in baseline]
        audio_s = sum(clip.duration_s for clip in clips if clip.id in seconds)
        ratio = paired_ratio([baseline[clip] for clip in common], [seconds[clip] for clip in common], seed=0)
        interval = f"{ratio.low:.2f} to {ratio.high:.2f}"
        table.add_row(name, f"{sum(seconds.values()) / audio_s:.2e}", f"{ratio.ratio:.2f}", interval)
    return table


def _observed(run: Run, implementation: str, clip: str) -> bool:
    return run.observation(implementation, clip).is_dir()


def _seconds(run: Run, implementation: str, clip: str) -> float:
    timings: Any = read_observation(run.observation(implementation, clip)).timings
    return float(sum(value for name, value in timings.items() if not name.startswith("streamed")))


if __name__ == "__main__":
    sys.exit(main())
