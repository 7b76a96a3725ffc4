"""The commands that prove gates and explain differences: `faults`, `floor`, `prove`, `trace`, `inject`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli_options import AsJson, Config, Gates, Runs, Weights, chosen_families, print_json

app = typer.Typer()

Family = Annotated[str, typer.Argument(metavar="FAMILY", help="One family.")]
Clips = Annotated[Path | None, typer.Option("--clips", help="A folder of WAV or FLAC files.")]
Port = Annotated[str, typer.Option("--port", help="The port to look into.")]
Plant = Annotated[str | None, typer.Option("--plant", help="Plant a declared fault in it first.")]


@app.command()
def faults(
    family: Family,
    clips: Clips = None,
    checkpoint: Weights = None,
    runs: Runs = Path("runs"),
    gates: Gates = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Which planted faults the gates catch, and whether a change that must not matter raises an alarm."""
    from harness.console import listener
    from harness.diagnosis import console, faults
    from harness.pipeline import GOLDEN

    (chosen,) = chosen_families([family], config, checkpoint)
    with listener(quiet=as_json) as progress:
        content = faults.prove(chosen, progress, runs, clips, gates or GOLDEN / "gates")
    _show(content, as_json, console.print_faults, runs)
    raise typer.Exit(faults.exit_status(content))


@app.command()
def floor(
    family: Family,
    write: Annotated[bool, typer.Option("--write", help="Store the suggested limits in the gates file.")] = False,
    keep: Annotated[bool, typer.Option("--keep-limits", help="With --write: store only what was measured.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why the limits change; needed with --write.")] = "",
    clips: Clips = None,
    checkpoint: Weights = None,
    runs: Runs = Path("runs"),
    gates: Gates = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """The reference against itself under changes that must not matter, and the limits that suggests."""
    from harness.console import listener
    from harness.diagnosis import console, floor
    from harness.errors import ParityError
    from harness.pipeline import GOLDEN

    if write and not reason.strip():
        raise ParityError("--reason", "nothing", "why the limits change", "say it in a sentence")
    folder = gates or GOLDEN / "gates"
    (chosen,) = chosen_families([family], config, checkpoint)
    with listener(quiet=as_json) as progress:
        content = floor.measure(chosen, progress, runs, clips, folder)
    _show(content, as_json, console.print_floor, runs)
    if write:
        for line in floor.write_limits(content, folder, reason, keep):
            typer.echo(line, err=as_json)
    raise typer.Exit(floor.exit_status(content))


@app.command()
def prove(
    family: Family,
    clips: Clips = None,
    checkpoint: Weights = None,
    runs: Runs = Path("runs"),
    gates: Gates = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """`faults` and `floor` from one run."""
    from harness.console import listener
    from harness.diagnosis import console, prove
    from harness.pipeline import GOLDEN

    (chosen,) = chosen_families([family], config, checkpoint)
    with listener(quiet=as_json) as progress:
        content = prove.prove(chosen, progress, runs, clips, gates or GOLDEN / "gates")
    _show(content, as_json, console.print_proofs, runs)
    raise typer.Exit(prove.exit_status(content))


@app.command()
def trace(
    family: Family,
    port: Port,
    clip: Annotated[str | None, typer.Option("--clip", help="The clip, the worst one when absent.")] = None,
    plant: Plant = None,
    clips: Clips = None,
    checkpoint: Weights = None,
    runs: Runs = Path("runs"),
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Where the port first leaves the reference, and the faults that explain it."""
    from harness.console import listener
    from harness.diagnosis import drawing, trace

    (chosen,) = chosen_families([family], config, checkpoint)
    with listener(quiet=as_json) as progress:
        content = trace.trace(chosen, port, clip, plant, progress, runs, clips)
    _show(content, as_json, drawing.print_trace, runs)
    raise typer.Exit(trace.exit_status(content))


@app.command()
def inject(
    family: Family,
    port: Port,
    plant: Plant = None,
    clips: Clips = None,
    checkpoint: Weights = None,
    runs: Runs = Path("runs"),
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Which stage of a pipeline, replaced by the reference's, turns its failure into a pass."""
    from harness.console import listener
    from harness.diagnosis import drawing, inject

    (chosen,) = chosen_families([family], config, checkpoint)
    with listener(quiet=as_json) as progress:
        content = inject.inject(chosen, port, plant, progress, runs, clips)
    _show(content, as_json, drawing.print_inject, runs)
    raise typer.Exit(inject.exit_status(content))


def _show(content: Any, as_json: bool, show: Callable[[Any], None], runs: Path) -> None:
    """Print what was found, and write its page into the run."""
    from harness.runs import open_run
    from reports import write_proof

    page = write_proof(open_run(content["run"], runs))
    if as_json:
        print_json(content)
    else:
        show(content)
        typer.echo(f"report: {page}")
