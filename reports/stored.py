"""A stored run as the reports read it: what is missing or damaged is said, not raised.

Conventions: a side is `family/name`, `family/name@repeat` or `family/name@frozen`, as in `harness.plan`. A row is one
measurement, a mapping with the columns of `measurements.parquet`.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.errors import ParityError
from harness.plan import Pair, reproducing_command
from harness.runs import Run

if TYPE_CHECKING:
    from harness.clips import Clip
    from harness.observations import Observation

Row = Mapping[str, Any]
PairKey = tuple[str, str]

# A status is never told by colour alone: each has a sign and its name.
SIGNS = {"pass": "✓", "fail": "✗", "error": "!", "not-run": "–", "inconclusive": "?", "not-comparable": "≠"}
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass
class StoredRun:
    """Everything of a run but the observations, which are read clip by clip."""

    run: Run
    verdict: Mapping[str, Any]
    request: Mapping[str, Any]
    outcomes: Mapping[str, Mapping[str, Any]]
    provenance: Mapping[str, Any]
    rows: Mapping[PairKey, list[Row]]
    problems: list[str] = field(default_factory=list)

    def plan(self, family: str) -> Mapping[str, Any]:
        """What `run.json` says of a family, empty when it says nothing."""
        plans: list[Mapping[str, Any]] = self.request.get("plans", [])
        return next((plan for plan in plans if plan["family"] == family), {})

    def task(self, family: str) -> str:
        """The family's task, empty when neither the run nor this version of the project knows it."""
        return str(self.plan(family).get("task", ""))

    def clips(self, family: str) -> dict[str, Clip]:
        """The family's inputs by name; none, and a problem noted, when they cannot be read."""
        try:
            return {clip.id: clip for clip in self.run.read_inputs(family)}
        except (ParityError, OSError, KeyError, TypeError) as error:
            self.problems.append(f"inputs of {family}: {error}")
            return {}

    def observation(self, side: str, clip: str) -> tuple[Observation | None, str]:
        """An observation, or None and why there is none."""
        from harness.observations import read_observation

        try:
            return read_observation(self.run.observation(side, clip)), ""
        except (ParityError, OSError, TypeError, ValueError) as error:
            return None, str(error)

    def command(self, reference: str, port: str) -> str:
        """The command that runs this pair again."""
        return reproducing_command(self.request, Pair(reference, port, "fresh"))


def read_stored(run: Run) -> StoredRun:
    """Read a run. Raises ParityError when it was not judged."""
    if not (run.folder / "verdict.json").is_file():
        raise ParityError(
            run.folder / "verdict.json", "no such file", "a judged run", f"judge it with `parity judge {run.id}`"
        )
    problems: list[str] = []
    outcomes = _optional(run, "implementations.json", [], problems)
    stored = StoredRun(
        run=run,
        verdict=run.read_json("verdict.json"),
        request=_optional(run, "run.json", {}, problems),
        outcomes={item["name"]: item for item in outcomes},
        provenance=_optional(run, "provenance.json", {}, problems),
        rows=_read_rows(run, problems),
    )
    stored.problems += problems
    return stored


def _optional(run: Run, name: str, empty: Any, problems: list[str]) -> Any:
    try:
        return run.read_json(name)
    except ParityError as error:
        problems.append(str(error))
        return empty


def _read_rows(run: Run, problems: list[str]) -> dict[PairKey, list[Row]]:
    rows: dict[PairKey, list[Row]] = defaultdict(list)
    try:
        measured = run.read_measurements()
    except ParityError as error:
        problems.append(f"{error}; the tables of clips are empty")
        return rows
    for row in measured:
        rows[row["reference"], row["port"]].append(row)
    return rows


def bounded(text: object, characters: int) -> str:
    """Text of a port made fit to show: without control characters, cut in the middle of what is too long."""
    clean = CONTROL.sub("�", str(text))
    if len(clean) <= characters:
        return clean
    head = characters * 2 // 3
    return f"{clean[:head]} … {len(clean) - characters} more characters … {clean[head - characters :]}"


def number(value: float | None, digits: int = 3) -> str:
    """A value for a table: three digits, `—` when it was not measured, `NaN` when it is not a number."""
    if value is None:
        return "—"
    if math.isnan(value):
        return "NaN"
    text = f"{value:.{digits}g}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else text


def without_command(reason: object) -> str:
    """A verdict's reason without the command at its end, where the command has a line of its own."""
    return str(reason).partition("; reproduce with `")[0]
