"""The stage to blame: the approximate resampler in front of the detector, and nobody when nothing fails."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from harness.diagnosis.drawing import print_inject
from harness.diagnosis.inject import blame, exit_status, inject
from harness.errors import ParityError
from harness.families import load_families
from harness.pipeline import GOLDEN
from harness.runs import Run
from reports import write_proof

CLIPS = GOLDEN / "clips"
(SILERO,) = load_families(["silero-vad"])


class Silent:
    """A listener that tells nobody."""

    def started(self, implementation: str, clips: int) -> None: ...
    def advanced(self, implementation: str, clip: str) -> None: ...
    def ended(self, implementation: str, status: str, reason: str) -> None: ...


@pytest.mark.parametrize(
    ("whole", "first", "second", "mending", "blamed"),
    [
        ("fail", "pass", "fail", ["one"], "one"),
        ("fail", "fail", "pass", ["two"], "two"),
        ("fail", "fail", "fail", [], None),
        ("fail", "pass", "pass", ["one", "two"], None),
        ("fail", "error", "inconclusive", [], None),
        ("pass", "pass", "pass", [], None),
        ("error", "pass", "fail", [], None),
    ],
)
def test_only_a_single_replacement_that_turns_fail_into_pass_is_blamed(
    whole: str, first: str, second: str, mending: list[str], blamed: str | None
) -> None:
    stages = [{"stage": "one", "status": first}, {"stage": "two", "status": second}]
    assert blame(whole, stages) == (mending, blamed)


@pytest.mark.parametrize(("status", "expected"), [("pass", 0), ("fail", 1), ("error", 2), ("inconclusive", 2)])
def test_exit_status(status: str, expected: int) -> None:
    assert exit_status({"status": status}) == expected


def test_wrong_names_and_clips_of_another_rate_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="no pipeline"):
        inject(load_families(["resampler"])[0], "libsoxr", None, Silent(), tmp_path, None)
    for port, plant in (("torchscript", None), ("none", None), ("numpy", "none"), ("numpy", "v5-weights")):
        with pytest.raises(ParityError):
            inject(SILERO, port, plant, Silent(), tmp_path, None)


def test_no_clip_at_the_rate_is_no_pass(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "other.wav", [0.1, 0.2], 44100)
    with pytest.raises(ParityError, match="no clip"):
        inject(SILERO, "numpy", None, Silent(), tmp_path, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "blamed"), [(None, None), ("kaiser-sinc", "resampler"), ("early-context", "vad")])
def test_the_faulty_stage_is_named(
    plant: str | None, blamed: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = inject(SILERO, "numpy", plant, Silent(), tmp_path, None)
    assert content["blamed"] == blamed
    assert content["status"] == ("fail" if plant else "pass")
    assert exit_status(content) == (1 if plant else 0)
    assert [item["stage"] for item in content["stages"]] == ["resampler", "vad"]
    if plant:
        assert [item["stage"] for item in content["stages"] if item["status"] == "fail"] == [
            name for name in ("resampler", "vad") if name != blamed
        ]
    print_inject(content)
    assert (blamed or "no stage is to blame") in capsys.readouterr().out
    page = write_proof(Run(tmp_path / content["run"])).read_text()
    assert (f"To blame: <code>{blamed}</code>" if blamed else "The pipeline passes") in page
    assert ("The worst clip" in page) == bool(plant)


@pytest.mark.slow
@pytest.mark.parametrize("plant", ["kaiser-sinc", "lq-instead-of-hq"])
def test_a_resampler_that_changes_codes_is_named_with_the_first_frame(plant: str, tmp_path: Path) -> None:
    (mimi,) = load_families(["mimi"])
    shutil.copy(CLIPS / "gb-noise.flac", tmp_path)
    content = inject(mimi, "torch", plant, Silent(), tmp_path / "runs", tmp_path)
    assert content["blamed"] == "resampler"
    assert "roots" in content["failing"]
    assert not {"decode", "spectrum"} & set(content["failing"])  # the decoder is given the reference's codes
    frame = re.search(r"first root in frame (\d+) \(", content["reasons"]["roots"])
    page = write_proof(Run(tmp_path / "runs" / content["run"])).read_text()
    assert f"first root in frame {frame[1]} " in page
    assert "code-root" in page


@pytest.mark.slow
def test_a_resampler_that_changes_no_code_is_not_blamed(tmp_path: Path) -> None:
    (mimi,) = load_families(["mimi"])
    shutil.copy(CLIPS / "gb-noise.flac", tmp_path)
    content = inject(mimi, "torch", None, Silent(), tmp_path / "runs", tmp_path)
    assert (content["status"], content["blamed"], content["worst"]) == ("pass", None, None)
