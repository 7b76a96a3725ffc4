"""What the page shows of a family, worked out before any markup: matrix, pairs, tables of clips, and clips in detail.

Conventions: the clips drawn of a pair are the worst by the task's leading metric, and those with a failing measurement.
A measurement fails when its gate failed and its value is over the limit, or when it could not be made at all.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from markupsafe import Markup

from harness.clips import Clip
from harness.compare import ANY_METRIC, with_given
from harness.plan import FROZEN, REPEAT, Pair, bare, execution_of
from harness.verdicts import worst
from reports.audio import Assets
from reports.details import DRAWINGS, UNDRAWN, Drawing
from reports.details.panels import Panel, Sides
from reports.figures import gate_scale
from reports.stored import PairKey, Row, StoredRun, without_command

WORST_CLIPS = 6
# A port that fails everywhere fails alike; more drawings than these would only make the page heavy.
MOST_FAILING_CLIPS = 40

UNRECORDED: Mapping[str, Any] = {"failed": {}, "last_lines": []}

Judged = Mapping[str, Any]


@dataclass(frozen=True)
class GateView:
    """One gate on one pair. speaks_for: how many gates in a row its reason is shown for, itself the last of them."""

    anchor: str
    row: Judged
    reason: str
    scale: Markup
    command: str
    speaks_for: int = 0


@dataclass(frozen=True)
class Cell:
    """An implementation's result on one gate: its worst pair, and all of them in the title."""

    status: str
    value: float | None
    title: str
    anchor: str


@dataclass(frozen=True)
class ClipRow:
    """A clip in the table. cells: metric → the row of its largest value. whole: why the clip has no values at all."""

    clip: str
    cells: Mapping[str, Row]
    failing: frozenset[str]
    whole: str


@dataclass(frozen=True)
class ClipTable:
    """The clips of one scope of a pair, the worst first."""

    scope: str
    metrics: Sequence[str]
    rows: Sequence[ClipRow]

    @property
    def size(self) -> int:
        """How many clips it has."""
        return len(self.rows)

    @property
    def broken(self) -> bool:
        """Whether a clip of it could not be compared."""
        return any(row.whole for row in self.rows)


@dataclass(frozen=True)
class ClipView:
    """One clip in detail. problem: why it could not be drawn."""

    id: str
    clip: Clip | None
    failing: bool
    rows: Sequence[Row]
    panels: Sequence[Panel]
    problem: str


@dataclass(frozen=True)
class PairView:
    """One comparison: its gates, its clips, and the ones drawn. opened: whether they show without a click."""

    anchor: str
    reference: str
    port: str
    status: str
    gates: Sequence[GateView]
    tables: Sequence[ClipTable]
    clips: Sequence[ClipView]
    shown: str
    opened: bool


@dataclass(frozen=True)
class FamilyView:
    """One family's part of the page."""

    anchor: str
    name: str
    status: str
    implementations: Sequence[Mapping[str, Any]]
    gates: Sequence[tuple[str, str]]
    matrix: Mapping[tuple[str, str], Mapping[str, Cell]]
    pairs: Sequence[PairView] = field(default_factory=tuple)
    deviations: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


def family_views(stored: StoredRun, assets: Assets) -> Iterator[FamilyView]:
    """Every family of the verdict; draws its clips into the assets."""
    for index, family in enumerate(stored.verdict["families"]):
        anchor = f"family-{index}"
        pairs = sorted(_pairs(stored, family, anchor, assets), key=lambda pair: pair.status == "pass")
        gates = list(dict.fromkeys((row["gate"], row["scope"]) for row in family["gates"]))
        yield FamilyView(
            anchor,
            family["family"],
            family["status"],
            [{**UNRECORDED, **stored.outcomes.get(item["name"], {}), **item} for item in family["implementations"]],
            gates,
            _matrix(gates, pairs),
            pairs,
            family.get("deviations", ()),
        )


def _matrix(gates: Sequence[tuple[str, str]], pairs: Sequence[PairView]) -> dict[tuple[str, str], dict[str, Cell]]:
    found: dict[tuple[str, str], dict[str, list[GateView]]] = {gate: defaultdict(list) for gate in gates}
    for pair in pairs:
        for view in pair.gates:
            found[view.row["gate"], view.row["scope"]][execution_of(pair.port)].append(view)
    return {gate: {name: _cell(views) for name, views in columns.items()} for gate, columns in found.items()}


def _cell(views: Sequence[GateView]) -> Cell:
    status = worst([view.row["status"] for view in views])
    own = [view for view in views if view.row["status"] == status]
    shown = max(own, key=lambda view: -math.inf if view.row["value"] is None else view.row["value"])
    lines = (f"{v.row['port']} against {v.row['reference']}: {v.row['status']}, {v.row['value']}" for v in views)
    return Cell(status, shown.row["value"], "\n".join(lines), shown.anchor)


def _pairs(stored: StoredRun, family: Judged, anchor: str, assets: Assets) -> Iterator[PairView]:
    name = family["family"]
    drawing = DRAWINGS.get(stored.task(name), UNDRAWN)
    clips = stored.clips(name)
    judged: dict[PairKey, list[Judged]] = defaultdict(list)
    for row in family["gates"]:
        judged[row["reference"], row["port"]].append(row)
    preferred = _preferred(stored, list(judged))
    tables = {key: _tables(stored.rows.get(key, []), rows, drawing) for key, rows in judged.items()}
    told = {key: {row.clip for table in tables[key] for row in table.rows if row.failing} for key in preferred}
    for number, (key, gates) in enumerate(judged.items()):
        reference, port = key
        siblings = () if key in preferred else [pair for pair in told if execution_of(pair[1]) == execution_of(port)]
        other = {clip for pair in siblings for clip in told[pair]}
        chosen, shown = _choose(tables[key], drawing.lead, key in preferred, other)
        status = worst([row["status"] for row in gates])
        role = stored.outcomes.get(execution_of(port), {}).get("role", "port")
        yield PairView(
            f"{anchor}-pair-{number}",
            reference,
            port,
            status,
            _told_once([_gate(stored, name, row, f"{anchor}-{number}-{at}") for at, row in enumerate(gates)]),
            tables[key],
            [_clip(stored, key, row, clips.get(row.clip), drawing, assets) for row in chosen],
            shown,
            status != "pass" or (key in preferred and role == "port"),
        )


def _preferred(stored: StoredRun, keys: Sequence[PairKey]) -> set[PairKey]:
    """Of each port's pairs the one whose worst clips are drawn: with a fresh reference where there is one."""
    chosen: dict[str, PairKey] = {}
    for reference, port in keys:
        if port.endswith(REPEAT) or bare(reference) == bare(port):
            continue
        present = chosen.get(port)
        if present is None or (present[0].endswith(FROZEN) and not reference.endswith(FROZEN)):
            chosen[port] = (reference, port)
    return set(chosen.values())


def _gate(stored: StoredRun, family: str, row: Judged, anchor: str) -> GateView:
    return GateView(
        anchor,
        row,
        without_command(row["reason"]),
        gate_scale(row["value"], row["limit"], row["unit"], row["status"]),
        "" if row["status"] == "pass" else stored.command(row["reference"], row["port"]),
    )


def _told_once(views: Sequence[GateView]) -> list[GateView]:
    """The gates with the reason of a group of equal ones only at its end: a port that did not run fails them all."""
    made: list[GateView] = []
    for (status, _), group in groupby(views, key=lambda view: (view.row["status"], view.reason)):
        *silent, last = group
        made += [*silent, last if status == "pass" else replace(last, speaks_for=len(silent) + 1)]
    return made


def _tables(rows: Sequence[Row], gates: Sequence[Judged], drawing: Drawing) -> list[ClipTable]:
    grouped: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        grouped[row["scope"]][row["clip"]].append(row)
    tables = []
    for scope, clips in grouped.items():
        own_rows, own_gates = ([item for item in items if item["scope"] == scope] for items in (rows, gates))
        limits = _limits(own_rows, own_gates)
        metrics = dict.fromkeys(row["metric"] for own in clips.values() for row in own if row["metric"] != ANY_METRIC)
        found = [_clip_row(clip, own, limits) for clip, own in clips.items()]
        tables.append(ClipTable(scope, list(metrics), sorted(found, key=lambda row: _badness(row, drawing.lead))))
    return tables


def _limits(rows: Sequence[Row], gates: Sequence[Judged]) -> dict[str, tuple[float, str]]:
    """Of each failed metric: the limit of one value, and the worst clip.

    A limit is one of single values only when the judged value is one of them; of a percentile or a rate just the worst
    clip is known to have a part in the failure.
    """
    limits = {}
    for gate in gates:
        if gate["status"] == "fail":
            values = [row["value"] for row in rows if row["metric"] == gate["metric"]]
            single = gate["value"] is None or gate["value"] == max(values, default=None)
            limits[gate["metric"]] = (gate["limit"] if single else math.inf, str(gate.get("worst_clip", "")))
    return limits


def _clip_row(clip: str, rows: Sequence[Row], limits: Mapping[str, tuple[float, str]]) -> ClipRow:
    cells: dict[str, Row] = {}
    failing = set()
    for row in rows:
        metric = row["metric"]
        if metric not in cells or _size(row["value"]) > _size(cells[metric]["value"]):
            cells[metric] = row
        limit, worst_clip = limits.get(metric, (math.inf, ""))
        over = metric in limits and (not row["value"] <= limit or worst_clip == clip)
        if over or row["state"] != "measured":
            failing.add(metric)
    whole = cells.pop(ANY_METRIC, None)
    return ClipRow(clip, cells, frozenset(failing), f"{whole['state']}: {whole['detail']}" if whole else "")


def _size(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _badness(row: ClipRow, lead: str) -> tuple[bool, float, str]:
    value = _size(row.cells[lead]["value"]) if lead in row.cells else -math.inf
    return not row.failing, -value, row.clip


def _choose(tables: Sequence[ClipTable], lead: str, preferred: bool, other: set[str]) -> tuple[list[ClipRow], str]:
    """The clips to draw, and the sentence that says which they are.

    other: failing clips of the port's preferred pair, which are drawn there.
    """
    rows = [row for table in sorted(tables, key=lambda table: table.scope) for row in table.rows]
    if not rows:
        return [], "No clip was compared."
    comparable = [row for row in rows if not row.whole]
    failing = [row for row in comparable if row.failing and row.clip not in other]  # recordings come before signals
    drawn = failing[:MOST_FAILING_CLIPS]
    by_badness = sorted(comparable, key=lambda row: _badness(row, lead)[:2])
    passing = [row for row in by_badness if not row.failing][: max(0, WORST_CLIPS - len(drawn)) if preferred else 0]
    elsewhere = sum(bool(row.failing) and row.clip in other for row in comparable)
    parts = [f"{len(drawn)} of {len(failing)} clips with a failing measurement"] if failing else []
    parts += [f"the {len(passing)} worst of those that pass"] if passing else []
    sentences = [f"Drawn: {' and '.join(parts) or 'none'}."]
    if elsewhere:
        sentences.append(f"{elsewhere} fail as they do in the port's other comparison, and are drawn there.")
    if broken := len(rows) - len(comparable):
        sentences.append(f"{broken} could not be compared; the table says why.")
    return drawn + passing, " ".join([*sentences, f"All {len(rows)} clips are in the table."])


def _clip(
    stored: StoredRun, key: PairKey, row: ClipRow, clip: Clip | None, drawing: Drawing, assets: Assets
) -> ClipView:
    rows = [item for item in stored.rows.get(key, []) if item["clip"] == row.clip]
    panels: Sequence[Panel] = ()
    reference, problem = stored.observation(key[0], row.clip)
    port, port_problem = stored.observation(key[1], row.clip)
    problem = "; ".join(text for text in (problem, port_problem) if text)
    if clip is None:
        problem = problem or "the clip's samples are not in the run"
    elif reference and port:
        reference, port = with_given(stored.run, drawing.exchanged, Pair(*key, "fresh"), reference, port)
        panels = drawing.draw(assets, clip, Sides(reference, port), rows)
    return ClipView(row.clip, clip, bool(row.failing), rows, panels, problem)
