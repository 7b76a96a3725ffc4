"""What one implementation produced for one clip, in memory and on disk.

On disk it is a folder with `observation.json` and `tensors.safetensors`; `docs/observation-format.md` is the contract
for ports in other languages. Reading trusts nothing: every statement of the JSON is checked against the tensors.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import ParityError
from harness.tensorfile import load_tensors, save_tensors

SCHEMA_VERSION = 1
DTYPES = frozenset({"float64", "float32", "float16", "int64", "int32", "int16", "uint8", "bool"})
TAP_PREFIX = "tap/"


@dataclass(frozen=True)
class Outputs:
    """What a task's `observe` returns in the worker: named arrays, taps in execution order, seconds spent."""

    tensors: Mapping[str, NDArray[Any]]
    taps: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Observation:
    """One implementation's outputs for one clip, with where they come from.

    implementation: `family/name`. clip, clip_digest: the input. variant: what it ran as, empty for itself.
    checkpoint_digest: sha256 of the weights, empty when
    the family has none. taps: names of the tensors `tap/…` in execution order. timings: seconds by name. golden: why,
    when and on what an accepted observation was frozen.
    """

    implementation: str
    clip: str
    clip_digest: str
    version: str
    tensors: Mapping[str, NDArray[Any]]
    taps: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    variant: str = ""
    checkpoint_digest: str = ""
    fault: str = ""
    timings: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    golden: Mapping[str, Any] = field(default_factory=dict)


def write_observation(folder: Path, observation: Observation) -> None:
    """Write the folder whole: under a temporary name beside it, then renamed. Raises OSError."""
    head = {key: value for key, value in asdict(_without_tensors(observation)).items() if key != "tensors"}
    head["schema_version"] = SCHEMA_VERSION
    head["tensors"] = {
        name: {"dtype": str(array.dtype), "shape": list(array.shape)} for name, array in observation.tensors.items()
    }
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    temporary.mkdir(parents=True)
    try:
        save_tensors(temporary / "tensors.safetensors", observation.tensors)
        text = json.dumps(head, indent=1, ensure_ascii=False, sort_keys=True)
        (temporary / "observation.json").write_text(text + "\n", encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def read_observation(folder: Path) -> Observation:
    """Read and check an observation folder.

    Raises ParityError, naming the file, for an unknown schema version, missing or unknown keys, a tensor that is
    missing, not stated, of another dtype or shape than stated, or that holds NaN.
    """
    path = folder / "observation.json"
    head = _read_head(path)
    tensors = load_tensors(folder / "tensors.safetensors")
    stated: Mapping[str, Any] = head["tensors"]
    if missing := sorted(set(stated) - set(tensors)):
        raise ParityError(folder / "tensors.safetensors", f"tensors {missing} are missing", "what the JSON states")
    if unstated := sorted(set(tensors) - set(stated)):
        raise ParityError(path, f"tensors {unstated} are not stated", "every tensor of tensors.safetensors")
    for name, statement in stated.items():
        _check_tensor(folder / "tensors.safetensors", name, statement, tensors[name])
    for tap in head.get("taps", ()):
        if TAP_PREFIX + tap not in tensors:
            raise ParityError(path, f"tap {tap} has no tensor {TAP_PREFIX}{tap}", "one tensor for each tap")
    known = set(Observation.__dataclass_fields__)
    fields = {key: value for key, value in head.items() if key in known and key != "tensors"}
    fields["taps"] = tuple(head.get("taps", ()))
    fields["warnings"] = tuple(head.get("warnings", ()))
    return Observation(**fields, tensors=tensors)


def _without_tensors(observation: Observation) -> Observation:
    fields = {name: getattr(observation, name) for name in Observation.__dataclass_fields__}
    return Observation(**{**fields, "tensors": {}})


def _read_head(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ParityError(path, "no such file", "an observation folder with observation.json", "run the observe phase")
    try:
        head = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParityError(path, f"not valid JSON ({error})", "docs/observation-format.md") from error
    if not isinstance(head, dict):
        raise ParityError(path, f"a JSON {type(head).__name__}", "an object")
    if head.get("schema_version") != SCHEMA_VERSION:
        raise ParityError(
            path, f"schema_version {head.get('schema_version')!r}", str(SCHEMA_VERSION), "write it for this version"
        )
    texts = ("implementation", "clip", "clip_digest", "version")
    for key in texts:
        if not isinstance(head.get(key), str):
            raise ParityError(path, f"{key} is {head.get(key)!r}", "a string", "see docs/observation-format.md")
    if not isinstance(head.get("tensors"), dict):
        raise ParityError(path, f"tensors is {head.get('tensors')!r}", "an object of dtype and shape by name")
    if unknown := sorted(set(head) - set(Observation.__dataclass_fields__) - {"schema_version"}):
        raise ParityError(path, f"unknown keys {unknown}", "only those of docs/observation-format.md", "remove them")
    return head


def _check_tensor(path: Path, name: str, statement: Any, array: NDArray[Any]) -> None:
    found = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if statement != found:
        raise ParityError(path, f"tensor {name} is {found}", f"{statement} by observation.json", "make them agree")
    if found["dtype"] not in DTYPES:
        raise ParityError(path, f"tensor {name} has dtype {array.dtype}", f"one of {sorted(DTYPES)}")
    if array.dtype.kind == "f" and (bad := int(np.isnan(array).sum())):
        first = tuple(int(i) for i in np.argwhere(np.isnan(array))[0])
        raise ParityError(path, f"tensor {name} holds {bad} NaN, the first at {list(first)}", "numbers")
