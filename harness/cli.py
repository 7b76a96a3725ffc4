"""The command line: parse, call, return the status.

Heavy packages are imported by the workers and inside functions, so that `parity --help` answers at once.
"""

from __future__ import annotations

import shlex
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from harness import cli_diagnosis
from harness.cli_options import (
    AsJson,
    Config,
    Families,
    Gates,
    Golden,
    RunName,
    Runs,
    Weights,
    chosen_families,
    print_json,
)
from harness.errors import ParityError

HELP = (
    "Decide whether a port of a speech model may ship: run reference and port side by side and judge the differences."
)
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=HELP)
golden_app = typer.Typer(no_args_is_help=True, help="Frozen observations of the references.")
env_app = typer.Typer(no_args_is_help=True, help="Overlay environments: packages whose pins conflict.")
app.add_typer(golden_app, name="golden")
app.add_typer(env_app, name="env")
app.add_typer(cli_diagnosis.app)

UNJUDGED = 2
SIGINT_STATUS = 130  # what typer makes of a KeyboardInterrupt


@app.command("list")
def list_command(
    faults: Annotated[bool, typer.Option("--faults", help="List the declared faults too.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Families, implementations, and what is installed."""

    from harness.listing import describe_families, print_families

    content = describe_families(chosen_families(None, config))
    if as_json:
        print_json(content)
    else:
        print_families(content, faults)


@app.command()
def run(
    families: Families = None,
    port: Annotated[list[str] | None, typer.Option("--port", help="Only this port; may be repeated.")] = None,
    reference: Annotated[str | None, typer.Option("--reference", help="Compare with this reference.")] = None,
    clips: Annotated[Path | None, typer.Option("--clips", help="A folder of WAV or FLAC files.")] = None,
    checkpoint: Weights = None,
    against: Annotated[str, typer.Option("--against", help="frozen, fresh or both.")] = "both",
    plant: Annotated[list[str] | None, typer.Option("--plant", help="Plant a declared fault (proves a gate).")] = None,
    timeout_s: Annotated[float | None, typer.Option("--timeout", help="Seconds for one clip.", min=0.01)] = None,
    runs: Runs = Path("runs"),
    gates: Gates = None,
    golden: Golden = None,
    config: Config = None,
    report_pages: Annotated[bool, typer.Option("--report/--no-report", help="Write the report.")] = True,
    as_json: AsJson = False,
) -> None:
    """Observe, compare, judge and report; the status is 0, 1 or 2."""
    from harness import pipeline
    from harness.console import listener, print_verdict
    from reports import write_reports

    if against not in ("frozen", "fresh", "both"):
        raise ParityError("--against", against, "frozen, fresh or both")
    chosen = [_with_timeout(family, timeout_s) for family in chosen_families(families, config, checkpoint)]
    request = pipeline.Request(
        families=tuple(chosen),
        ports=tuple(port or ()),
        reference=reference,
        clips=clips,
        against=against,  # type: ignore[arg-type]
        faults=tuple(plant or ()),
        runs=runs,
        golden=golden or pipeline.GOLDEN,
        gates=gates or pipeline.GOLDEN / "gates",
        command=f"parity {shlex.join(sys.argv[1:])}",
    )
    with listener(quiet=as_json) as progress:
        stored, verdict = pipeline.execute(request, progress)
    if report_pages:
        write_reports(stored)
    if as_json:
        print_json(verdict)
    else:
        print_verdict(verdict, stored.folder)
    raise typer.Exit(verdict["exit_status"])


@app.command()
def observe(
    families: Families = None,
    port: Annotated[list[str] | None, typer.Option("--port", help="Only this port; may be repeated.")] = None,
    clips: Annotated[Path | None, typer.Option("--clips", help="A folder of WAV or FLAC files.")] = None,
    runs: Runs = Path("runs"),
    config: Config = None,
) -> None:
    """Only run the implementations and store what they produce; prints the run's folder."""
    from harness import pipeline
    from harness.console import listener

    request = pipeline.Request(
        families=tuple(chosen_families(families, config)),
        ports=tuple(port or ()),
        clips=clips,
        runs=runs,
        command=f"parity {shlex.join(sys.argv[1:])}",
    )
    with listener(quiet=False) as progress:
        stored = pipeline.observe_only(request, progress)
    print(stored.folder)


@app.command()
def compare(name: RunName, runs: Runs = Path("runs"), config: Config = None) -> None:
    """Measure a stored run's observations again, without running a model."""
    from harness.compare import compare as compare_run
    from harness.runs import open_run

    stored = open_run(name, runs)
    table = compare_run(stored, {family.name: family for family in chosen_families(None, config)})
    print(f"{len(table)} measurements in {stored.measurements}")


@app.command()
def judge(
    name: RunName, runs: Runs = Path("runs"), gates: Gates = None, config: Config = None, as_json: AsJson = False
) -> None:
    """Judge a stored run with the present gates, without running a model."""
    from harness import pipeline
    from harness.console import print_verdict
    from harness.runs import open_run

    stored = open_run(name, runs)
    families = chosen_families([item["family"] for item in stored.read_json("run.json")["plans"]], config)
    by_family = pipeline.gates_of(families, gates or pipeline.GOLDEN / "gates")
    verdict = pipeline.rejudge(stored, families, by_family)
    if as_json:
        print_json(verdict)
    else:
        print_verdict(verdict, stored.folder)
    raise typer.Exit(verdict["exit_status"])


@app.command()
def report(
    name: RunName,
    open_page: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    runs: Runs = Path("runs"),
) -> None:
    """Write a stored run's HTML page, Markdown summary and JUnit file."""
    from harness.runs import open_run
    from reports import PROOFS, write_proof, write_reports

    stored = open_run(name, runs)
    proven = any((stored.folder / file).is_file() for file in PROOFS)
    # A trace is not judged, and has the page of its findings alone.
    judged = (stored.folder / "verdict.json").is_file() or not proven
    pages = ([write_reports(stored)] if judged else []) + ([write_proof(stored)] if proven else [])
    for page in pages:
        print(page)
    if open_page:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


@app.command()
def doctor(config: Config = None, as_json: AsJson = False) -> None:
    """What this machine has, and what is missing with the command that installs it."""
    from harness.doctor import examine, print_findings

    findings = examine(chosen_families(None, config))
    if as_json:
        print_json(findings)
    else:
        print_findings(findings)
    raise typer.Exit(0 if all(item["ok"] for item in findings) else 2)


@env_app.command("list")
def env_list(as_json: AsJson = False) -> None:
    """The overlays, what they require, and whether they are installed."""
    from harness import overlays

    content = overlays.describe()
    if as_json:
        print_json(content)
    else:
        for item in content:
            state = "installed" if item["installed"] else f"missing: parity env install {item['overlay']}"
            print(f"{item['overlay']}: {', '.join(item['requires'])}; {state}")


@env_app.command("install")
def env_install(
    names: Annotated[list[str] | None, typer.Argument(metavar="[OVERLAY]...", help="All when none is named.")] = None,
) -> None:
    """Install overlays that are missing or whose requirements have changed."""
    from harness import overlays

    for name in names or overlays.names():
        if overlays.install(name):
            print(f"{name}: installed in {overlays.folder(name)}")


@golden_app.command("status")
def golden_status(families: Families = None, golden: Golden = None, as_json: AsJson = False) -> None:
    """Which goldens are there, missing, or belong to no clip."""
    from harness.golden_commands import print_status, status

    states = status(chosen_families(families, None), golden)
    if as_json:
        print_json(states)
    else:
        print_status(states)
    raise typer.Exit(1 if any(state["missing"] or state["orphans"] for state in states) else 0)


@golden_app.command("verify")
def golden_verify(
    families: Families = None, runs: Runs = Path("runs"), golden: Golden = None, as_json: AsJson = False
) -> None:
    """Run the references afresh and judge them against their goldens."""
    from harness.console import listener, print_verdict
    from harness.golden_commands import verify

    with listener(quiet=as_json) as progress:
        stored, verdict = verify(chosen_families(families, None), runs, golden, progress)
    if as_json:
        print_json(verdict)
    else:
        print_verdict(verdict, stored.folder)
    raise typer.Exit(verdict["exit_status"])


@golden_app.command("freeze")
def golden_freeze(
    families: Families = None,
    reason: Annotated[str, typer.Option("--reason", help="Why these observations are accepted.")] = "",
    runs: Runs = Path("runs"),
    golden: Golden = None,
) -> None:
    """Run the references and accept what they give; shows what changes, and ends with status 1 for review."""
    from harness.console import listener
    from harness.golden_commands import freeze, print_frozen

    with listener(quiet=False) as progress:
        written = freeze(chosen_families(families, None), reason, runs, golden, progress)
    print_frozen(written)
    raise typer.Exit(1)


def _with_timeout(family: Any, timeout_s: float | None) -> Any:
    import dataclasses

    if timeout_s is None:
        return family
    limited = tuple(dataclasses.replace(item, timeout_s=timeout_s) for item in family.implementations)
    return dataclasses.replace(family, implementations=limited)


def main() -> NoReturn:
    """The entry point: errors become one line on standard error and status 2."""
    try:
        status = app(standalone_mode=False)
    except ParityError as error:
        print(f"parity: {error}", file=sys.stderr)
        status = UNJUDGED
    except typer.exceptions.TyperException as error:
        print(f"parity: {error.message} Try `parity --help`.", file=sys.stderr)
        status = UNJUDGED
    except Exception:
        # A defect of the harness itself: 1 would read as a gate that failed.
        traceback.print_exc()
        status = UNJUDGED
    if status == SIGINT_STATUS:
        print("parity: interrupted; what was observed is kept", file=sys.stderr)
        status = UNJUDGED
    sys.exit(status or 0)


if __name__ == "__main__":
    main()
