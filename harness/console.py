"""What the commands show: progress (bars on a terminal, plain lines elsewhere) and the table of verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from harness.observe import Listener
from harness.plan import execution_of
from harness.verdicts import ORDER

STYLES = {
    "pass": "green",
    "fail": "bold red",
    "error": "red",
    "not-run": "yellow",
    "inconclusive": "magenta",
    "not-comparable": "magenta",
}
PLAIN_WIDTH = 160
REASON_CHARACTERS = 400


class PlainListener:
    """One line when an implementation begins and one when it ends, on standard error."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._done = 0

    def started(self, implementation: str, clips: int) -> None:
        """See `Listener`."""
        self._done = 0
        self._print(f"{implementation}: {clips} observations")

    def advanced(self, implementation: str, clip: str) -> None:
        """See `Listener`."""
        self._done += 1

    def ended(self, implementation: str, status: str, reason: str) -> None:
        """See `Listener`."""
        self._print(f"{implementation}: {status}, {self._done} done" + (f"; {reason}" if reason else ""))

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class BarListener:
    """A progress bar per implementation."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bar = TaskID(0)

    def started(self, implementation: str, clips: int) -> None:
        """See `Listener`."""
        self._bar = self._progress.add_task(implementation, total=clips)

    def advanced(self, implementation: str, clip: str) -> None:
        """See `Listener`."""
        self._progress.advance(self._bar)

    def ended(self, implementation: str, status: str, reason: str) -> None:
        """See `Listener`."""
        if status != "ran":
            self._progress.console.print(Text(f"{implementation}: {status}; {reason}", style=STYLES[status]))


@contextmanager
def listener(quiet: bool) -> Iterator[Listener]:
    """Progress on standard error. quiet: plain lines even on a terminal, so that nothing mixes with JSON."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield PlainListener(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        yield BarListener(progress)


def print_verdict(verdict: Mapping[str, Any], folder: Path) -> None:
    """The table family × implementation × gate, the reasons of what did not pass, and where the report lies.

    A line shows the worst of a gate's comparisons: of both scopes, and against every fresh and frozen reference.
    """
    console = _console()
    table = Table(title=f"run {verdict['run']}")
    for name in ("implementation", "gate"):
        table.add_column(name, overflow="fold")
    for name in ("value", "limit", "comparisons"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for family in verdict["families"]:
        for (implementation, gate), rows in _grouped(family["gates"]).items():
            table.add_row(implementation, gate, *_cells(rows))
        table.add_section()
    console.print(table)
    for family in verdict["families"]:
        for item in family["implementations"]:
            version = f" ({item['version']})" if item["version"] else ""
            _line(console, f"{item['status']:>14}  {item['name']}{version}", STYLES[item["status"]])
    _print_reasons(console, verdict)
    for family in verdict["families"]:
        for item in family["deviations"]:
            text = f"known deviation: {item['port']} from {item['reference']}: {item['metric']} {item['value']:.3g}"
            _line(console, f"{text} on {item['clip']}", "cyan")
        for item in family["findings"]:
            between = f"floor {item['floor']:g}, smallest fault {item.get('smallest_fault', 'none')}"
            _line(console, f"gate {item['gate']} is {item['state']}: limit {item['limit']:g}, {between}", "magenta")
    counts = ", ".join(f"{count} {status}" for status, count in verdict["counts"].items() if count)
    _line(console, f"{verdict['status'].upper()}: {counts}; {folder}", STYLES[verdict["status"]])
    if (page := folder / "report" / "index.html").is_file():
        _line(console, f"report: {page}", "")


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH)


def _grouped(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((execution_of(row["port"]), row["gate"]), []).append(row)
    return groups


def _cells(rows: Sequence[Mapping[str, Any]]) -> tuple[str | Text, ...]:
    row = max(rows, key=lambda row: (ORDER.index(row["status"]), math.inf if row["value"] is None else row["value"]))
    value = "—" if row["value"] is None else f"{row['value']:.3g}"
    limit = f"{row['limit']:g}" + ("" if row["unit"] == "1" else f" {row['unit']}")
    return value, limit, str(len(rows)), Text(row["status"], style=STYLES[row["status"]])


def _print_reasons(console: Console, verdict: Mapping[str, Any]) -> None:
    seen: set[tuple[str, str]] = set()
    for family in verdict["families"]:
        for row in family["gates"]:
            if row["status"] == "pass" or (row["port"], row["reason"]) in seen:
                continue
            seen.add((row["port"], row["reason"]))
            text = f"{row['status']}: {row['gate']} ({row['scope']}): {row['reason'][:REASON_CHARACTERS]}"
            _line(console, text, STYLES[row["status"]])


def _line(console: Console, text: str, style: str) -> None:
    console.print(Text(text, style=style), soft_wrap=True)
