"""The command line: wrong words are told at once, with status 2, and nothing heavy is imported to do so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PARITY = [sys.executable, "-m", "harness.cli"]


def parity(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PARITY, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["list", "--json"]])
def test_light_commands_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom harness import cli\n"
        f"sys.argv = ['parity', *{arguments!r}]\n"
        "try:\n    cli.main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'torch', 'librosa', 'transformers', 'onnxruntime', 'numba', 'pandas', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "no-such-family"], "no such family"),
        (["run", "resampler", "--port", "nothing"], "no implementation nothing"),
        (["run", "resampler", "--reference", "libsoxr"], "is a port"),
        (["run", "resampler", "--plant", "no-such-fault"], "no fault no-such-fault"),
        (["run", "resampler", "--against", "sideways"], "frozen, fresh or both"),
        (["run", "resampler", "--clips", "no-such-folder"], "no such folder"),
        (["run", "resampler", "--gates", "no-such-folder"], "no such file"),
        (["run", "resampler", "--config", "no-such-file"], "no such file"),
        (["run", "--no-such-option"], "No such option"),
        (["judge", "no-such-run"], "no such run"),
        (["report", "latest", "--runs", "no-such-folder"], "no runs here"),
        (["golden", "freeze"], "--reason"),
    ],
)
def test_wrong_words(arguments: list[str], message: str) -> None:
    done = parity(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[implementation", "not valid TOML"),
        ('[[implementation]]\nname = "resampler/x"', "role is missing"),
        ('[[implementation]]\nname = "x/y"\nrole = "port"\nrunner = "python"\nfactory = "a:b"', "belongs to no family"),
        ('[[implementation]]\nname = "resampler/x"\nrole = "port"\nrunner = "rust"\nfactory = "a:b"', "runner 'rust'"),
        ('[[implementation]]\nname = "resampler/x"\nrole = "boss"\nrunner = "python"\nfactory = "a:b"', "role 'boss'"),
        ('[[implementation]]\nname = "resampler/x"\nrole = "port"\nrunner = "python"\nfactory = 3', "factory is 3"),
        ('[[implementation]]\nname = "resampler/x"\nrole = "port"\nspeed = 1', "unknown keys"),
        (
            '[[implementation]]\nname = "resampler/librosa"\nrole = "port"\nrunner = "python"\nfactory = "a:b"',
            "declared twice",
        ),
    ],
)
def test_a_wrong_parity_toml(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "parity.toml").write_text(text)
    done = parity("list", "--config", tmp_path / "parity.toml")
    assert done.returncode == 2
    assert message in done.stderr


def test_list_names_every_implementation() -> None:
    families = {item["family"]: item for item in json.loads(parity("list", "--json").stdout)}
    names = [item["name"] for family in families.values() for item in family["implementations"]]
    assert {"resampler/librosa", "resampler/python-soxr", "resampler/libsoxr"} <= set(names)
    assert {"silero-vad/torchscript", "silero-vad/numpy", "silero-vad/onnx", "silero-vad/ggml"} <= set(names)


def test_a_defect_of_the_harness_is_never_a_failed_gate() -> None:
    code = (
        "import sys\nfrom harness import cli, listing\n"
        "def broken(*_): raise ZeroDivisionError('a defect')\n"
        "listing.describe_families = broken\nsys.argv = ['parity', 'list']\ncli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "a defect" in done.stderr


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not a table"])
def test_damaged_measurements_are_named_with_the_remedy(tmp_path: Path, content: bytes) -> None:
    run = tmp_path / "one"
    run.mkdir()
    (run / "run.json").write_text('{"plans": [{"family": "resampler"}]}')
    (run / "implementations.json").write_text("[]")
    (run / "measurements.parquet").write_bytes(content)
    done = parity("judge", run)
    assert done.returncode == 2
    assert "measurements.parquet: not a Parquet table" in done.stderr
    assert "parity compare one" in done.stderr
    assert "Traceback" not in done.stderr
