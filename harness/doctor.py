"""`parity doctor`: what this machine has, and the command that installs what is missing."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from harness.clips import load_clips
from harness.errors import ParityError
from harness.family import Family
from harness.listing import missing_packages
from harness.pipeline import GOLDEN, gates_of
from harness.provenance import cpu_model
from harness.runners.environment import REMOVED_VARIABLES

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def examine(families: Iterable[Family]) -> list[dict[str, Any]]:
    """Findings: what was examined, whether it is well, what was found, and the remedy."""
    families = list(families)
    findings = [_finding("processor", True, f"{cpu_model()}, {os.cpu_count()} cores")]
    findings += [
        _finding(item.name, not (missing := missing_packages(item)), ", ".join(missing) or "installed", item.remedy)
        for family in families
        for item in family.implementations
    ]
    findings += [_libsoxr(), _golden_clips(), _gates(families), _variables(), _browser(), _runs()]
    return findings


def print_findings(findings: Iterable[Mapping[str, Any]]) -> None:
    """Print the findings as a table."""
    table = Table("", "what", "found", "remedy")
    for item in findings:
        table.add_row("ok" if item["ok"] else "!!", item["what"], item["found"], "" if item["ok"] else item["remedy"])
    Console().print(table)


def _finding(what: str, ok: bool, found: str, remedy: str = "") -> dict[str, Any]:
    return {"what": what, "ok": ok, "found": found, "remedy": remedy}


def _libsoxr() -> dict[str, Any]:
    try:
        ctypes.CDLL("libsoxr.so.0")
    except OSError as error:
        return _finding("libsoxr.so.0", False, str(error), "apt-get install libsoxr0")
    return _finding("libsoxr.so.0", True, "loads")


def _golden_clips() -> dict[str, Any]:
    try:
        return _finding("golden clips", True, f"{len(load_clips(GOLDEN / 'clips'))} clips, digests right")
    except ParityError as error:
        return _finding("golden clips", False, str(error), "restore golden/clips")


def _gates(families: Iterable[Family]) -> dict[str, Any]:
    try:
        gates = gates_of(families, GOLDEN / "gates")
    except ParityError as error:
        return _finding("gates files", False, str(error), "mend the file")
    return _finding("gates files", True, ", ".join(f"{name}: {len(items)} gates" for name, items in gates.items()))


def _variables() -> dict[str, Any]:
    found = [name for name in REMOVED_VARIABLES if name in os.environ]
    text = f"set here, removed from the workers: {', '.join(found)}" if found else "none set"
    return _finding("numerics-changing variables", True, text)


def _browser() -> dict[str, Any]:
    found = next((name for name in BROWSERS if shutil.which(name)), None)
    return _finding("browser for the report tests", found is not None, found or "none", "apt-get install chromium")


def _runs() -> dict[str, Any]:
    folder = Path("runs")
    place = folder if folder.exists() else Path()
    ok = os.access(place, os.W_OK)
    free_gb = shutil.disk_usage(place).free / 1e9
    return _finding("runs folder", ok, f"{free_gb:.1f} GB free" if ok else "not writable", "choose one with --runs")
