"""The verdict as Markdown, fit for a comment on a pull request.

Conventions: everything that comes from a run stands in code spans, where neither HTML, tables, links nor `@names` act.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reports.stored import SIGNS, StoredRun, bounded, number, without_command

# GitHub refuses a comment of more than 65536 characters.
LIMIT_CHARACTERS = 60000
REASON_CHARACTERS = (300, 120, 40, 0)


def summary(stored: StoredRun) -> str:
    """The summary of a run; reasons are shortened until it fits a comment."""
    texts = ("\n".join(_lines(stored, characters)) + "\n" for characters in REASON_CHARACTERS)
    text = ""
    for text in texts:
        if len(text) <= LIMIT_CHARACTERS:
            break
    return text


def _lines(stored: StoredRun, reason_characters: int) -> Iterator[str]:
    verdict = stored.verdict
    counts = ", ".join(f"{count} {status}" for status, count in verdict["counts"].items() if count)
    yield f"## {_signed(verdict['status'])}: speech-parity"
    yield ""
    yield f"Exit status {verdict['exit_status']}; gates: {counts or 'none'}. Run {_code(verdict['run'], 80)}."
    yield ""
    yield from _implementations(verdict["families"])
    open_rows = [
        (family["family"], row) for family in verdict["families"] for row in family["gates"] if row["status"] != "pass"
    ]
    if open_rows:
        yield from _gates(open_rows, reason_characters)
        yield from _commands(stored.command(row["reference"], row["port"]) for _, row in open_rows)


def _implementations(families: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield "| implementation | role | verdict | version | gates passed | reason |"
    yield "| --- | --- | --- | --- | ---: | --- |"
    for family in families:
        for item in family["implementations"]:
            own = [row for row in family["gates"] if row["port"].partition("@")[0] == item["name"]]
            passed = sum(row["status"] == "pass" for row in own)
            cells = (
                _code(item["name"], 80),
                item["role"],
                _signed(item["status"]),
                _code(item["version"], 40),
                f"{passed} of {len(own)}",
                _code(item["reason"], 160),
            )
            yield _row(cells)
    yield ""


def _gates(rows: Iterable[tuple[str, Mapping[str, Any]]], reason_characters: int) -> Iterator[str]:
    yield "### Gates that did not pass"
    yield ""
    yield "| verdict | gate | port | against | value | limit | worst clip | reason |"
    yield "| --- | --- | --- | --- | ---: | ---: | --- | --- |"
    for _, row in rows:
        cells = (
            _signed(row["status"]),
            _code(f"{row['gate']} ({row['scope']})", 80),
            _code(row["port"], 80),
            _code(row["reference"], 80),
            _code(number(row["value"]), 40),
            _code(f"{number(row['limit'])} {row['unit'] if row['unit'] != '1' else ''}", 40),
            _code(row.get("worst_clip", ""), 80),
            _code(without_command(row["reason"]), reason_characters) if reason_characters else "see the page",
        )
        yield _row(cells)
    yield ""


def _commands(commands: Iterable[str]) -> Iterator[str]:
    yield "### Reproduce"
    yield ""
    yield "~~~~sh"
    yield from dict.fromkeys(bounded(" ".join(command.split()), 400) for command in commands)
    yield "~~~~"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _signed(status: str) -> str:
    return f"{SIGNS.get(status, '?')} {status}"


def _code(text: object, characters: int) -> str:
    """A code span that nothing inside can end, empty for nothing."""
    flat = " ".join(bounded(text, characters).split()).replace("`", "'").replace("|", "\\|")
    return f"`{flat}`" if flat else ""
