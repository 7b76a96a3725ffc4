"""The sessions users and CI run. All that need the models share one environment, so that it is installed once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["parity"]

ENVIRONMENT = ".nox/harness"
FAMILIES = ("resampler", "silero-vad")
EXTRAS = ",".join((*FAMILIES, "tests"))
NATIVE = {"libsoxr0": "the library that the resampler port calls"}
BROWSER = {"chromium": "the browser that the report's tests open"}


def _install(session: nox.Session) -> None:
    session.install("-c", "constraints.txt", "-e", f".[{EXTRAS}]")


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
    return Path(f"/var/lib/dpkg/info/{package}.list").exists() or any(
        Path("/var/lib/dpkg/info").glob(f"{package}:*.list")
    )


def _parity(session: nox.Session, *families: str) -> None:
    _install(session)
    _install_debian(session, NATIVE)
    session.run("parity", "run", *families, *session.posargs)


@nox.session(venv_location=ENVIRONMENT)
def parity(session: nox.Session) -> None:
    """Every family against its references; writes the report and prints the verdicts."""
    _parity(session)


for _family in FAMILIES:

    @nox.session(name=f"parity-{_family}", venv_location=ENVIRONMENT)
    def parity_family(session: nox.Session, family: str = _family) -> None:
        """One family against its references."""
        _parity(session, family)


@nox.session(venv_location=ENVIRONMENT)
def tests(session: nox.Session) -> None:
    """The whole test suite, slow tests too."""
    _install(session)
    _install_debian(session, NATIVE | BROWSER)
    session.run("pytest", *session.posargs)


@nox.session(venv_location=ENVIRONMENT)
def property(session: nox.Session) -> None:
    """The laws alone, with more examples than in the suite."""
    _install(session)
    session.run("pytest", "tests/property", "--hypothesis-profile=thorough", *session.posargs)


@nox.session(venv_location=ENVIRONMENT)
def report(session: nox.Session) -> None:
    """Write the latest run's report again."""
    _install(session)
    session.run("parity", "report", *(session.posargs or ["latest"]))


@nox.session(venv_location=ENVIRONMENT)
def bench(session: nox.Session) -> None:
    """Speed of ports against references, and the harness's own overhead."""
    _install(session)
    _install_debian(session, NATIVE)
    session.run("python", "-m", "harness.bench", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Formatting and lint rules."""
    session.install("-c", "constraints.txt", "ruff")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")


@nox.session(venv_location=ENVIRONMENT)
def types(session: nox.Session) -> None:
    """Strict types on the engine and the reports."""
    _install(session)
    session.install("-c", "constraints.txt", "mypy", "pandas-stubs")
    session.run("mypy")
