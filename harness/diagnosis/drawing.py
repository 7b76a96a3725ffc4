"""What `parity trace` and `parity inject` show on a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.console import PLAIN_WIDTH, STYLES

TAP_STYLES = {
    "agrees": "green",
    "diverges": "bold red",
    "inherited": "red",
    "drift": "magenta",
    "unmatched": "yellow",
}
BAR_CHARACTERS = 36
# The scale of the bars, in decades: float32's resolution at the left, an error as large as the reference at the right.
LOWEST_DECADE, HIGHEST_DECADE = -7.0, 0.0
EXPLANATIONS_SHOWN = 5


def print_trace(content: Mapping[str, Any]) -> None:
    """Every tap's error, drawn on a logarithmic scale with its floor; the first divergence; what explains it."""
    console = _console()
    table = Table(title=f"{content['port']}, clip {content['clip']}")
    table.add_column("tap", overflow="fold")
    for name in ("error", "floor", "alone"):
        table.add_column(name, justify="right")
    table.add_column(f"1e{LOWEST_DECADE:.0f} … 1, floor |", no_wrap=True)
    table.add_column("status")
    for row in content["taps"]:
        style = TAP_STYLES[row["status"]]
        numbers = (_number(row["error"]), _number(row["floor"]), _number(row["isolated"]))
        status = row["status"] if row["error"] is not None else f"{row['status']}: {row['note']}"
        table.add_row(row["tap"], *numbers, Text(bar(row), style=style), Text(status, style=style))
    console.print(table)
    for note in content["notes"]:
        _line(console, f"note: {note}", "yellow")
    first = content["first_divergence"]
    if first:
        row = next(row for row in content["taps"] if row["tap"] == first)
        _line(console, f"first divergence: {first} ({row['note']})", "bold red")
    else:
        _line(console, "no divergence beyond the floor", "green")
    if unmatched := [row["tap"] for row in content["taps"] if row["status"] == "unmatched"]:
        _line(console, f"not compared, on one side only: {', '.join(unmatched)}", "yellow")
    _print_explanations(console, content)


def _print_explanations(console: Console, content: Mapping[str, Any]) -> None:
    explanations = content["explanations"]
    if explanations and not content["convincing"]:
        _line(console, "no declared fault and no simple change explains it; the best that was tried:", "yellow")
    for item in explanations[:EXPLANATIONS_SHOWN]:
        described = f": {item['description']}" if item["description"] else ""
        _line(console, f"{100 * item['explained']:7.2f} % explained by {item['fault']}{described}", "")


def bar(row: Mapping[str, Any]) -> str:
    """A tap's error as a bar, with `|` at its floor; full when it cannot be compared, empty when there is nothing."""
    if row["status"] == "unmatched":
        return ""
    filled = BAR_CHARACTERS if row["error"] is None else _position(row["error"])
    cells = list("█" * filled + " " * (BAR_CHARACTERS - filled))
    cells[min(_position(row["floor"]), BAR_CHARACTERS - 1)] = "|"
    return "".join(cells)


def _position(value: float) -> int:
    """How many characters of the bar lie below a value."""
    if value <= 0:
        return 0
    share = (math.log10(value) - LOWEST_DECADE) / (HIGHEST_DECADE - LOWEST_DECADE)
    return min(max(round(share * BAR_CHARACTERS), 0), BAR_CHARACTERS)


def print_inject(content: Mapping[str, Any]) -> None:
    """The verdict on the whole pipeline, on each replacement, and the stage to blame."""
    console = _console()
    table = Table(title=f"{content['port']}, {len(content['clips'])} clips")
    for name in ("run by the reference", "verdict", "gates that do not pass"):
        table.add_column(name, overflow="fold")
    rows = [("(none)", content["status"], content["failing"])]
    rows += [(item["stage"], item["status"], item["failing"]) for item in content["stages"]]
    for name, status, failing in rows:
        table.add_row(name, Text(status, style=STYLES[status]), ", ".join(failing))
    console.print(table)
    if content["blamed"]:
        _line(console, f"to blame: {content['blamed']}; run by the reference, the pipeline passes", "bold red")
    elif content["status"] == "pass":
        _line(console, "the pipeline passes: no stage is to blame", "green")
    elif content["mending"]:
        _line(console, f"each of {', '.join(content['mending'])} alone mends it: none can be named", "yellow")
    else:
        _line(console, "no single replacement mends it", "yellow")


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH)


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.2g}"


def _line(console: Console, text: str, style: str) -> None:
    console.print(Text(text, style=style), soft_wrap=True)
