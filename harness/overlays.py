"""Overlay environments: packages whose pins conflict, in a folder of their own in front of a worker's path.

Conventions: an overlay is `references/overlays/<name>.txt`, a requirements file with exact versions. It is installed
without its dependencies, because the pins of these are ignored: what it needs of them is listed in the file, the rest
(torch, numpy) it shares with the base environment. The folder belongs to the base environment and goes with it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

from harness.errors import ParityError

REQUIREMENTS = Path(__file__).resolve().parents[1] / "references" / "overlays"
INSTALLED = "installed.txt"


def names() -> list[str]:
    """Every declared overlay."""
    return sorted(path.stem for path in REQUIREMENTS.glob("*.txt"))


def folder(name: str) -> Path:
    """Where an overlay lies, installed or not. Raises ParityError for an unknown name."""
    if name not in names():
        raise ParityError(name, "no such overlay", f"one of {', '.join(names())}", "see `parity env list`")
    return Path(sys.prefix) / "share" / "speech-parity" / "overlays" / name


def is_installed(name: str) -> bool:
    """Whether what lies there was installed from the requirements as they are now."""
    marker = folder(name) / INSTALLED
    return marker.is_file() and marker.read_bytes() == _requirements(name).read_bytes()


def describe() -> list[dict[str, Any]]:
    """Every overlay with its requirements and whether it is installed."""
    return [
        {"overlay": name, "requires": _requirements(name).read_text().split(), "installed": is_installed(name)}
        for name in names()
    ]


def install(name: str) -> bool:
    """Install an overlay unless it is there; returns whether something was done.

    Raises ParityError, and leaves what was there, when pip fails.
    """
    target = folder(name)
    if is_installed(name):
        return False
    temporary = target.with_name(f".{name}.{uuid.uuid4().hex[:8]}")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    try:
        temporary.mkdir(parents=True)
        command = [*pip, "--target", str(temporary), "-r", str(_requirements(name))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"pip ended with {done.returncode}"]
            raise ParityError(
                _requirements(name), f"pip failed: {lines[-1]}", "an installed overlay", "see the message"
            )
        shutil.copyfile(_requirements(name), temporary / INSTALLED)
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
    except OSError as error:
        raise ParityError(target, f"not writable ({error.strerror})", "a writable environment") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return True


def _requirements(name: str) -> Path:
    return REQUIREMENTS / f"{name}.txt"
