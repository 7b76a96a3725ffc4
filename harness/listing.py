"""`parity list`: the families, their implementations, and what of them is installed."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from harness import overlays
from harness.family import Family, Implementation


def describe_families(families: Iterable[Family]) -> list[dict[str, Any]]:
    """What is known of each family without running anything."""
    return [
        {
            "family": family.name,
            "task": family.task,
            "description": family.description,
            "implementations": [
                {
                    "name": item.name,
                    "role": item.role,
                    "rates_hz": list(item.rates_hz) if item.rates_hz else "any",
                    "missing": missing_packages(item),
                }
                for item in family.implementations
            ],
            "faults": [
                {"fault": item.name, "implementation": item.implementation, "description": item.description}
                for item in family.faults
            ],
        }
        for family in families
    ]


def missing_packages(implementation: Implementation) -> list[str]:
    """The distributions it needs that are not installed here."""
    missing = []
    overlay = [str(overlays.folder(implementation.overlay))] if implementation.overlay else []
    for package in implementation.packages:
        found = importlib.metadata.distributions(name=package, path=[*overlay, *sys.path])
        if not any(found):
            missing.append(package)
    return missing


def print_families(content: Sequence[Mapping[str, Any]], with_faults: bool) -> None:
    """Print one table of implementations, and one of faults when asked."""
    console = Console()
    table = Table("family", "task", "implementation", "role", "input rates (Hz)", "installed")
    for family in content:
        for item in family["implementations"]:
            rates = item["rates_hz"] if item["rates_hz"] == "any" else ", ".join(map(str, item["rates_hz"]))
            installed = f"no: {', '.join(item['missing'])}" if item["missing"] else "yes"
            table.add_row(family["family"], family["task"], item["name"], item["role"], rates, installed)
        table.add_section()
    console.print(table)
    if with_faults:
        table = Table("fault", "planted in", "what a porter did")
        for family in content:
            for item in family["faults"]:
                table.add_row(item["fault"], item["implementation"], item["description"])
        console.print(table)
