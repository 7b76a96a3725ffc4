"""What a run was made with: machine, versions, environment, digests and commit."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.clips import Clip
from harness.runners.environment import REMOVED_VARIABLES, THREAD_VARIABLES, recorded_variables

PROJECT = Path(__file__).resolve().parents[1]


def provenance(clips: Mapping[str, Iterable[Clip]], outcomes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The content of `provenance.json`. clips: stimuli by family."""
    return {
        "machine": {
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "architecture": platform.machine(),
            "system": f"{platform.system()} {platform.release()}",
        },
        "python": sys.version.split()[0],
        "commit": commit(),
        "environment": {
            "found": dict(recorded_variables()),
            "removed_from_workers": list(REMOVED_VARIABLES),
            "set_in_workers": {
                "threads": sorted({item["threads"] for item in outcomes}),
                "variables": list(THREAD_VARIABLES),
            },
        },
        "implementations": {
            item["name"]: {key: item[key] for key in ("version", "versions", "checkpoint_digest", "fault")}
            for item in outcomes
        },
        "clips": {family: {clip.id: clip.digest for clip in items} for family, items in clips.items()},
    }


def cpu_model() -> str:
    """The processor's name and the vector extensions that change kernels."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(line.split(":", 1) for line in text.partition("\n\n")[0].splitlines() if ":" in line)
    by_name = {key.strip(): value.strip() for key, value in fields.items()}
    flags = set(by_name.get("flags", "").split()) & {"avx", "avx2", "avx512f", "fma"}
    return " ".join([by_name.get("model name", platform.machine()), *sorted(flags)])


def commit() -> str:
    """The project's git commit, with `+` when the tree is changed; empty outside a checkout."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(PROJECT), *arguments], capture_output=True, text=True, timeout=20, check=True
        ).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return ""
