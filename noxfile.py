"""The sessions users and CI run. All that need the models share one environment, so that it is installed once."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import nox

nox.options.sessions = ["parity"]

ENVIRONMENT = Path(".nox/harness")
FAMILIES = ("resampler", "silero-vad", "mimi")
EXTRAS = ",".join((*FAMILIES, "tests", "types"))
NATIVE = {"libsoxr0": "the library that the resampler port calls"}
BROWSER = {"chromium": "the browser that the report's tests open"}

# Its own virtual environment would be a second copy of torch for every session.
in_shared_environment = {"venv_backend": "none"}


def _run(session: nox.Session, program: str, *arguments: str) -> None:
    """Run a program of the shared environment, which is made and brought up to date first."""
    root = Path(__file__).parent / ENVIRONMENT
    binaries = root / ("Scripts" if os.name == "nt" else "bin")
    if not (binaries / "python").exists():
        session.run(sys.executable, "-m", "venv", str(root), external=True)
    python = str(binaries / "python")
    requirements = ["-c", "constraints.txt", "-e", f".[{EXTRAS}]"]
    session.run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements, external=True)
    session.run(str(binaries / "parity"), "env", "install", external=True)
    paths = os.pathsep.join((str(binaries), os.environ["PATH"]))
    session.run(str(binaries / program), *arguments, external=True, env={"PATH": paths})


def _install_debian(session: nox.Session, packages: dict[str, str]) -> None:
    """Install Debian packages where that is possible; elsewhere print the command and go on."""
    missing = [name for name in packages if not _is_installed(name)]
    if not missing:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if not shutil.which("apt-get") or os.geteuid() != 0:
        session.warn(f"missing: {', '.join(missing)}; install with: sudo {' '.join(command)}")
        return
    quiet = {"external": True, "silent": True, "env": {"DEBIAN_FRONTEND": "noninteractive"}, "success_codes": [0, 100]}
    session.run("apt-get", "update", **quiet)
    session.run(*command, **quiet)


def _is_installed(package: str) -> bool:
    lists = Path("/var/lib/dpkg/info")
    return (lists / f"{package}.list").exists() or any(lists.glob(f"{package}:*.list"))


def _parity(session: nox.Session, *families: str) -> None:
    _install_debian(session, NATIVE)
    _run(session, "parity", "run", *families, *session.posargs)


@nox.session(**in_shared_environment)
def parity(session: nox.Session) -> None:
    """Every family against its references; writes the report and prints the verdicts."""
    _parity(session)


for _family in FAMILIES:

    @nox.session(name=f"parity-{_family}", **in_shared_environment)
    def parity_family(session: nox.Session, family: str = _family) -> None:
        """One family against its references."""
        _parity(session, family)


@nox.session(**in_shared_environment)
def tests(session: nox.Session) -> None:
    """The whole test suite, slow tests too."""
    _install_debian(session, NATIVE | BROWSER)
    _run(session, "pytest", *session.posargs)


@nox.session(name="property", **in_shared_environment)
def property_laws(session: nox.Session) -> None:
    """The laws alone, with more examples than in the suite."""
    _run(session, "pytest", "tests/property", "--hypothesis-profile=thorough", *session.posargs)


@nox.session(**in_shared_environment)
def report(session: nox.Session) -> None:
    """Write the latest run's report again."""
    _run(session, "parity", "report", *(session.posargs or ["latest"]))


@nox.session(**in_shared_environment)
def proof(session: nox.Session) -> None:
    """Prove that every gate can fail and that every limit lies between floor and fault, family by family.

    The runs are gigabytes; they are kept, a folder for each family, where `SPEECH_PARITY_PROVEN` names one.
    """
    _install_debian(session, NATIVE)
    kept = os.environ.get("SPEECH_PARITY_PROVEN")
    for family in session.posargs or FAMILIES:
        with tempfile.TemporaryDirectory() as temporary:
            _run(session, "parity", "prove", family, "--runs", str(Path(kept or temporary, family)))


@nox.session(**in_shared_environment)
def bench(session: nox.Session) -> None:
    """Speed of ports against references, and the harness's own overhead."""
    _install_debian(session, NATIVE)
    _run(session, "python", "-m", "harness.bench", *session.posargs)


@nox.session(**in_shared_environment)
def lint(session: nox.Session) -> None:
    """Formatting and lint rules."""
    _run(session, "ruff", "format", "--check", ".")
    _run(session, "ruff", "check", ".")


@nox.session(**in_shared_environment)
def types(session: nox.Session) -> None:
    """Strict types on the engine and the reports."""
    _run(session, "mypy")
