"""What `parity faults` and `parity floor` print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 160
REASON_CHARACTERS = 200
CELLS = {"fail": ("●", "green"), "pass": ("·", "dim")}
UNJUDGED = ("?", "yellow")
STATES = {"sound": "green", "too tight": "bold red", "blind": "bold red", "not measured": "yellow"}
STATUSES = {"caught": "green", "survived": "bold red", "not judged": "yellow"}


def print_faults(content: Mapping[str, Any]) -> None:
    """The matrix fault × gate, the variations below it, and what was found."""
    console = _console()
    numbers = {gate: str(number) for number, gate in enumerate(content["gates"], start=1)}
    table = Table(title=f"faults and gates of {content['family']}", padding=(0, 0, 0, 1))
    table.add_column("fault or variation", overflow="fold")
    for number in numbers.values():
        table.add_column(number, justify="center", no_wrap=True)
    for name in ("effect", "margin", "clips"):
        table.add_column(name, justify="right")
    table.add_column("result")
    for fault in content["faults"]:
        table.add_row(*_fault_cells(fault, content["gates"]))
    table.add_section()
    for variation in content["variations"]:
        table.add_row(*_variation_cells(variation, content))
    console.print(table)
    _line(console, "  ".join(f"{number} {gate}" for gate, number in numbers.items()), "")
    for fault in content["faults"]:
        if 0 < 2 * len(fault["clips"]) < fault["all_clips"]:
            _line(console, f"{fault['fault']}: on {_some(fault['clips'])}, {_share(fault)}", "dim")
    _print_findings(console, content)


def print_proofs(content: Mapping[str, Any]) -> None:
    """Both tables of `parity prove`."""
    print_faults(content["faults"])
    print_floor(content["floor"])


def print_floor(content: Mapping[str, Any]) -> None:
    """Floor, limit and smallest fault of every gate."""
    console = _console()
    table = Table(title=f"floors and limits of {content['family']}")
    table.add_column("gate")
    table.add_column("separation", overflow="fold")
    table.add_column("unit")
    table.add_column("state")
    table.add_column("suggested", justify="right")
    table.add_column("from", overflow="fold")
    for gate in content["gates"]:
        suggested = "—" if gate["suggested"] is None else f"{gate['suggested']:g}"
        sources = " | ".join(
            name.rpartition("/")[2] for name in (gate["floor_from"], gate["smallest_fault_name"]) if name
        )
        state = Text(gate["state"], style=STATES[gate["state"]])
        table.add_row(gate["gate"], separation(gate), gate["unit"], state, suggested, sources)
    console.print(table)
    for gate in content["gates"]:
        if gate["note"]:
            _line(console, f"{gate['gate']}: {gate['note']}", "dim")
    _print_unjudged(console, content)
    found = [f"{gate['gate']} {gate['state']}" for gate in content["gates"] if gate["state"] != "sound"]
    _line(console, f"{', '.join(found) or 'every limit is sound'}; {content['run']}", "bold red" if found else "green")


def separation(gate: Mapping[str, Any]) -> str:
    """`floor 1.7e-06 | limit 1e-05 | smallest fault 0.03`."""
    smallest = _number(gate["smallest_fault"], "not comparable" if gate["smallest_fault_name"] else "none")
    return f"floor {_number(gate['floor'], '—')} | limit {gate['limit']:g} | smallest fault {smallest}"


def _fault_cells(fault: Mapping[str, Any], gates: list[str]) -> list[str | Text]:
    statuses = {cell["gate"]: cell["status"] for cell in fault["gates"]}
    marks = [_mark(statuses[gate]) if gate in statuses else Text("") for gate in gates]
    caught = bool(fault["caught_by"])
    unit = "" if fault["unit"] == "1" else f" {fault['unit']}"
    effect = _number(fault["effect"], "not comparable", unit) if caught else ""
    margin = _number(fault["margin"], "∞") if caught else ""
    result = Text(fault["status"], style=STATUSES[fault["status"]])
    return [fault["fault"], *marks, effect, margin, _share(fault) if caught else "", result]


def _variation_cells(variation: str, content: Mapping[str, Any]) -> list[str | Text]:
    alarms = [alarm for alarm in content["false_alarms"] if alarm["variation"] == variation]
    named = {alarm["gate"] for alarm in alarms}
    marks = [Text("✗", style="bold red") if gate in named else Text("·", style="dim") for gate in content["gates"]]
    result = Text(f"{len(alarms)} false alarms", style="bold red" if alarms else "green")
    return [f"no fault, {variation}", *marks, "", "", "", result]


def _print_findings(console: Console, content: Mapping[str, Any]) -> None:
    for alarm in content["false_alarms"]:
        text = f"false alarm: {alarm['port']} under {alarm['variation']}: {alarm['gate']}: {alarm['reason']}"
        _line(console, text[:REASON_CHARACTERS], "bold red")
    for name in content["survived"]:
        _line(console, f"survived: {name}", "bold red")
    _print_unjudged(console, content)
    for title, names in (("unproven gates", "unproven_gates"), ("redundant gates", "redundant_gates")):
        if content[names]:
            _line(console, f"{title}: {', '.join(content[names])}", "yellow" if names == "unproven_gates" else "dim")
    caught = sum(fault["status"] == "caught" for fault in content["faults"])
    good = not (content["survived"] or content["false_alarms"] or content["unjudged"])
    text = f"{caught} of {len(content['faults'])} faults caught, {len(content['false_alarms'])} false alarms"
    _line(console, f"{text}; {content['run']}", "green" if good else "bold red")


def _print_unjudged(console: Console, content: Mapping[str, Any]) -> None:
    for item in content["unjudged"]:
        where = ", ".join(part for part in (item["name"], item["gate"]) if part)
        _line(console, f"not judged: {where}: {item['reason'][:REASON_CHARACTERS]}", "yellow")


def _mark(status: str) -> Text:
    sign, style = CELLS.get(status, UNJUDGED)
    return Text(sign, style=style)


def _share(fault: Mapping[str, Any]) -> str:
    return "all" if len(fault["clips"]) == fault["all_clips"] else f"{len(fault['clips'])} of {fault['all_clips']}"


def _some(names: list[str], shown: int = 4) -> str:
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")


def _number(value: float | None, missing: str, unit: str = "") -> str:
    return missing if value is None else f"{value:.3g}{unit}"


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH)


def _line(console: Console, text: str, style: str) -> None:
    console.print(Text(text, style=style), soft_wrap=True)
