"""One execution, stored whole: a folder that every phase adds its own file to.

    run.json                 what was asked: families, implementations, options
    provenance.json          machine, versions, environment, commit
    inputs/FAMILY/           clips.json and one safetensors file per clip: exactly what every implementation was given
    observations/FAMILY/IMPLEMENTATION/CLIP/   observation folders; `NAME@repeat` and `NAME@frozen` beside `NAME`
    implementations.json     how each implementation ended: status, reason, version
    measurements.parquet     every measurement
    verdict.json             the judgement
    report/ junit.xml summary.md

A run is written under a temporary name and renamed when it is whole.
"""

from __future__ import annotations

import datetime
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.clips import Clip
from harness.errors import ParityError
from harness.tensorfile import load_tensors, save_tensors

CLIP_FIELDS = ("id", "rate_hz", "scope", "text", "speaker", "origin", "signal", "golden")
PARTIAL_PREFIX = ".partial-"


@dataclass
class Run:
    """A run's folder, and where each thing lies in it."""

    folder: Path

    @property
    def id(self) -> str:
        """The run's name."""
        return self.folder.name.removeprefix(PARTIAL_PREFIX)

    @property
    def measurements(self) -> Path:
        """The table of all measurements."""
        return self.folder / "measurements.parquet"

    def observation(self, implementation: str, clip: str) -> Path:
        """The folder of one observation; `implementation` is `family/name`, with or without `@repeat`, `@frozen`."""
        return self.folder / "observations" / implementation / clip

    def read_measurements(self) -> list[dict[str, Any]]:
        """Every measurement as a row. Raises ParityError when the table is missing or damaged."""
        import pandas as pd

        remedy = f"measure again with `parity compare {self.id}`"
        if not self.measurements.is_file():
            raise ParityError(self.measurements, "no such file", "the run's measurements", remedy)
        try:
            table = pd.read_parquet(self.measurements)
        except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
            raise ParityError(self.measurements, f"not a Parquet table ({error})", remedy=remedy) from error
        return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]

    def write_json(self, name: str, content: Any) -> None:
        """Write one of the run's JSON files."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def read_json(self, name: str) -> Any:
        """Read one of the run's JSON files. Raises ParityError when it is missing or damaged."""
        path = self.folder / name
        if not path.is_file():
            raise ParityError(path, "no such file", "a run folder written by `parity run`", "name a whole run")
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ParityError(path, f"not valid JSON ({error})", remedy="run again") from error

    def write_inputs(self, family: str, clips: Iterable[Clip]) -> None:
        """Store what the implementations of a family are given."""
        folder = self.folder / "inputs" / family
        folder.mkdir(parents=True, exist_ok=True)
        entries = []
        for clip in clips:
            save_tensors(folder / f"{clip.id}.safetensors", {"samples": clip.samples})
            entries.append({**clip_fields(clip), "digest": clip.digest})
        self.write_json(f"inputs/{family}/clips.json", entries)

    def input_path(self, family: str, clip: str) -> Path:
        """The stored samples of one clip."""
        return self.folder / "inputs" / family / f"{clip}.safetensors"

    def read_inputs(self, family: str) -> list[Clip]:
        """The clips of a family. Raises ParityError when one is not what its digest says."""
        clips = []
        for entry in self.read_json(f"inputs/{family}/clips.json"):
            path = self.input_path(family, entry["id"])
            digest = entry.pop("digest")
            clip = Clip(samples=load_tensors(path)["samples"], **entry)
            if clip.digest != digest:
                raise ParityError(path, f"digest {clip.digest[:12]}", f"{digest[:12]} by clips.json", "run again")
            clips.append(clip)
        return clips

    def finish(self) -> Run:
        """Give a whole run its name."""
        if self.folder.name.startswith(PARTIAL_PREFIX):
            self.folder = self.folder.rename(self.folder.with_name(self.id))
        return self


def clip_fields(clip: Clip) -> dict[str, Any]:
    """What is known of a clip besides its samples."""
    return {name: getattr(clip, name) for name in CLIP_FIELDS}


def new_run(parent: Path) -> Run:
    """Make a run's folder under its temporary name. Raises ParityError when the place is not writable."""
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = parent / f"{PARTIAL_PREFIX}{stamp}-{secrets.token_hex(3)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ParityError(
            parent, f"not writable ({error.strerror})", "a folder for runs", "choose another with --runs"
        ) from error
    return Run(folder)


def open_run(name: str, parent: Path) -> Run:
    """Find a stored run by path, by name, or as `latest`. Raises ParityError when there is none."""
    if name == "latest":
        runs = sorted(path for path in parent.glob("[0-9]*") if (path / "run.json").is_file())
        if not runs:
            raise ParityError(parent, "no runs here", "a stored run", "make one with `parity run`")
        return Run(runs[-1])
    for folder in (Path(name), parent / name):
        if (folder / "run.json").is_file():
            return Run(folder.resolve())
    raise ParityError(name, "no such run", f"a folder with run.json, or a name in {parent}", "see `ls runs`")
