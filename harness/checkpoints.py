"""Weights with a digest: a fixture that the project makes, a local path, or a hub repository at a pinned revision.

Conventions: a family declares a `CheckpointSource`; resolving it gives a folder in the cache that every implementation
of the family is constructed with, so that both sides of a comparison load the same numbers. The digest is the sha256 of
the file names with their own sha256. Every file of a fixture is hashed whenever it is used. The cache is
`$SPEECH_PARITY_CACHE`, else `speech-parity` in `$XDG_CACHE_HOME` or `~/.cache`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ParityError
from harness.family import CheckpointSource, Family, resolve

BLOCK_BYTES = 1 << 22


@dataclass(frozen=True)
class Checkpoint:
    """Weights that are there. name: the fixture's, the path's or the repository's. digest: of all files."""

    name: str
    folder: Path
    digest: str


def cache_folder() -> Path:
    """Where made and prepared checkpoints lie."""
    if chosen := os.environ.get("SPEECH_PARITY_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "speech-parity"


def find_checkpoints(families: Iterable[Family]) -> dict[str, Checkpoint]:
    """The checkpoint of each family that loads one, by the family's name. Raises ParityError as `find_checkpoint`."""
    return {family.name: find_checkpoint(family.checkpoint) for family in families if family.checkpoint}


def find_checkpoint(source: CheckpointSource) -> Checkpoint:
    """The checkpoint that a source means, made, fetched or prepared when the cache does not hold it.

    Raises ParityError for a path or repository that is not there, weights that the family cannot load, and a fixture
    whose bytes are not those its digests promise.
    """
    if not source.chosen:
        return _fixture(source)
    path = Path(source.chosen).expanduser()
    if path.exists():
        return _prepared(source, path.resolve(), source.chosen)
    if source.chosen in source.hub:
        return _prepared(source, _fetch(source), source.chosen)
    known = ", ".join([source.name, *source.hub])
    raise ParityError(source.chosen, "no such path or repository", f"a file, a folder, or one of {known}")


def file_digest(path: Path) -> str:
    """The sha256 of a file's bytes."""
    sha = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            sha.update(block)
    return sha.hexdigest()


def folder_digests(folder: Path) -> dict[str, str]:
    """The sha256 of every file below a folder, by its relative name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}


def digest_of(digests: Mapping[str, str]) -> str:
    """One digest for a set of files."""
    return hashlib.sha256(json.dumps(dict(digests), sort_keys=True).encode()).hexdigest()


def _fixture(source: CheckpointSource) -> Checkpoint:
    digest = digest_of(source.digests)
    folder = cache_folder() / f"{source.name}-{digest[:12]}"
    if not folder.is_dir():
        _build(folder, resolve(source.make))
    found = folder_digests(folder)
    if wrong := sorted(name for name in {*found, *source.digests} if found.get(name) != source.digests.get(name)):
        details = f"{wrong[0]} has sha256 {found.get(wrong[0], 'none, it is missing')[:40]}"
        expected = f"{source.digests.get(wrong[0], 'no such file')[:40]} as declared for {source.name}"
        raise ParityError(folder, details, expected, "delete the folder, it is made again")
    return Checkpoint(source.name, folder, digest)


def _prepared(source: CheckpointSource, found: Path, name: str) -> Checkpoint:
    digests = folder_digests(found) if found.is_dir() else {found.name: file_digest(found)}
    folder = cache_folder() / f"prepared-{source.name}-{digest_of(digests)[:12]}"
    if not folder.is_dir():
        prepare: Callable[[Path, Path], None] = resolve(source.prepare)
        _build(folder, lambda target: prepare(found, target))
    return Checkpoint(name, folder, digest_of(folder_digests(folder)))


def _build(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder whole: under a temporary name, then renamed; whoever was first wins."""
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    try:
        temporary.mkdir(parents=True)
        fill(temporary)
        if not folder.is_dir():
            temporary.rename(folder)
    except OSError as error:
        remedy = "free space, or choose another place with SPEECH_PARITY_CACHE"
        raise ParityError(folder, f"could not be written ({error.strerror or error})", remedy=remedy) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _fetch(source: CheckpointSource) -> Path:
    """The folder of the pinned files of a hub repository, downloaded when the hub's own cache lacks them."""
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ModuleNotFoundError as error:
        raise ParityError(source.chosen, str(error), "huggingface_hub", "pip install huggingface_hub") from error
    pinned = source.hub[source.chosen]
    where = f"{source.chosen} at revision {pinned.revision}"
    try:
        paths = [Path(hf_hub_download(source.chosen, name, revision=pinned.revision)) for name in pinned.files]
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ParityError(
            where, f"could not be fetched ({reason})", "a hub that answers", "name a local path"
        ) from error
    if wrong := [path for path in paths if path.parent != paths[0].parent]:
        raise ParityError(where, f"{wrong[0]} lies outside {paths[0].parent}", "one folder for one revision")
    # The hub's cache holds links to blobs; what is prepared must outlive it.
    return paths[0].parent
