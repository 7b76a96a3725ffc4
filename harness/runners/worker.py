"""The program that serves one Python implementation: `python -m harness.runners.worker`.

It reads one JSON object per line from standard input and answers each with one JSON line on the pipe that was its
standard output. Everything that the implementation prints, natively too, goes to standard error.

First line in: the declaration (`task`, `implementation`, `factory`, `variant`, `packages`, `fault`, `changes`, `ulp`,
`checkpoint`, `checkpoint_digest`).
First line out: `ready` with versions and load seconds, or `unavailable`, or `failed`. Then one request per clip: `clip`
(its fields), `samples` (a safetensors file), `out` (the observation folder to write), and, where sides exchange their
products, `given` (the other side's observation). Answers: `done` with the seconds spent inside, or `failed` with the
traceback.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from harness.clips import Clip
from harness.errors import ParityError, Unavailable
from harness.family import Replacement, resolve
from harness.observations import DTYPES, TAP_PREFIX, Observation, Outputs, write_observation
from harness.tasks import load_task
from harness.tensorfile import load_tensors

PR_SET_PDEATHSIG = 1


def main() -> int:
    """Serve until standard input ends."""
    answers = _protect_protocol()
    _die_with_parent()
    declaration = json.loads(sys.stdin.readline())
    try:
        implementation, ready = _load(declaration)
    except Unavailable as error:
        _answer(answers, {"unavailable": str(error)})
        return 0
    except ModuleNotFoundError as error:
        _answer(answers, {"unavailable": f"{error}; {declaration['remedy']}".rstrip("; ")})
        return 0
    except Exception as error:
        _answer(answers, {"failed": _describe(error), "traceback": traceback.format_exc()})
        return 0
    _answer(answers, ready)
    for line in sys.stdin:
        _answer(answers, _serve(implementation, declaration, ready, json.loads(line)))
    return 0


def _protect_protocol() -> IO[str]:
    """Keep standard output for the protocol; what anybody prints from here on goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _die_with_parent() -> None:
    """A worker must not outlive the harness, however that ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == 1:
            sys.exit(1)


def _load(declaration: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    started = time.perf_counter()
    for change in declaration["changes"]:
        Replacement(**change).plant()
    arguments = [declaration["variant"]] if declaration["variant"] else []
    options = {"checkpoint": Path(declaration["checkpoint"])} if declaration["checkpoint"] else {}
    implementation = resolve(declaration["factory"])(*arguments, **options)
    if check := getattr(implementation, "check", None):
        check()
    return implementation, {
        "ready": True,
        "version": str(getattr(implementation, "version", "")),
        "versions": _versions(declaration["packages"]),
        "checkpoint_digest": declaration["checkpoint_digest"] or str(getattr(implementation, "checkpoint_digest", "")),
        "load_s": time.perf_counter() - started,
    }


def _versions(packages: list[str]) -> dict[str, str]:
    versions = {"python": sys.version.split()[0]}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError as error:
            raise Unavailable(f"the package {package} is not installed; pip install {package}") from error
    return versions


def _serve(
    implementation: Any, declaration: Mapping[str, Any], ready: Mapping[str, Any], request: Mapping[str, Any]
) -> dict[str, Any]:
    task = load_task(declaration["task"])
    samples = _moved(load_tensors(Path(request["samples"]))["samples"], declaration["ulp"])
    clip = Clip(samples=samples, **request["clip"])
    started = time.perf_counter()
    try:
        outputs = _observe(task, implementation, clip, request)
        inside_s = time.perf_counter() - started
        named = {**outputs.tensors, **{TAP_PREFIX + name: tap for name, tap in outputs.taps.items()}}
        tensors = {name: array for name, array in named.items() if not _unusable(array)}
        unusable = tuple(f"{name} {_unusable(array)}" for name, array in named.items() if name not in tensors)
        observation = Observation(
            implementation=declaration["implementation"],
            clip=clip.id,
            clip_digest=request["clip_digest"],
            version=ready["version"],
            versions=ready["versions"],
            variant=declaration["variant"],
            checkpoint_digest=ready["checkpoint_digest"],
            fault=declaration["fault"],
            tensors=tensors,
            taps=tuple(name for name in outputs.taps if TAP_PREFIX + name in tensors),
            timings=outputs.timings,
            warnings=(*outputs.warnings, *unusable),
        )
    except Exception as error:
        return {"failed": _describe(error), "traceback": traceback.format_exc()}
    try:
        write_observation(Path(request["out"]), observation)
    except OSError as error:
        return {"unwritable": f"{request['out']}: {error.strerror or error}"}
    return {"done": clip.id, "inside_s": inside_s}


def _observe(task: Any, implementation: Any, clip: Clip, request: Mapping[str, Any]) -> Outputs:
    if "given" not in request:
        return task.observe(implementation, clip)  # type: ignore[no-any-return]
    given = load_tensors(Path(request["given"]) / "tensors.safetensors")
    return task.observe_given(implementation, {name: given[name] for name in task.EXCHANGED})  # type: ignore[no-any-return]


def _moved(samples: NDArray[Any], ulp: int) -> NDArray[Any]:
    """Every sample moved by so many representable numbers, up or down."""
    for _ in range(abs(ulp)):
        samples = np.nextafter(samples, samples.dtype.type(np.inf if ulp > 0 else -np.inf))
    return samples


def _unusable(array: Any) -> str:
    """Why an output cannot be stored; such an output counts as missing, which is the port's failure."""
    if not isinstance(array, np.ndarray):
        return f"is {type(array).__name__}, not an array"
    return "" if str(array.dtype) in DTYPES else f"has dtype {array.dtype}, not one of {sorted(DTYPES)}"


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, ParityError) else f"{type(error).__name__}: {error}"


def _answer(stream: IO[str], message: Mapping[str, Any]) -> None:
    stream.write(json.dumps(message) + "\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
