"""Weights: made once, checked whenever used, and refused with a reason."""

from __future__ import annotations

import dataclasses

import pytest

from harness import overlays
from harness.checkpoints import find_checkpoint
from harness.cli_options import chosen_families
from harness.errors import ParityError
from harness.families.mimi import FAMILY

SOURCE = FAMILY.checkpoint


def chosen(name):
    return dataclasses.replace(SOURCE, chosen=str(name))


def test_a_path_that_is_not_there_is_named_with_what_could_be():
    with pytest.raises(ParityError, match=r"nowhere\.safetensors: no such path.*mimi-fitted, kyutai/mimi"):
        find_checkpoint(chosen("nowhere.safetensors"))


def test_a_file_that_holds_no_weights_leaves_nothing_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPEECH_PARITY_CACHE", str(tmp_path / "cache"))
    wrong = tmp_path / "mine.safetensors"
    wrong.write_bytes(b"nothing")
    with pytest.raises(ParityError, match=r"mine\.safetensors: cannot be read"):
        find_checkpoint(chosen(wrong))
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_folder_without_weights_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SPEECH_PARITY_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ParityError, match=r"no \*\.safetensors file"):
        find_checkpoint(chosen(tmp_path))


@pytest.mark.slow
def test_a_damaged_fixture_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setenv("SPEECH_PARITY_CACHE", str(tmp_path))
    made = find_checkpoint(SOURCE)
    with (made.folder / "hf" / "config.json").open("a") as stream:
        stream.write(" ")
    with pytest.raises(ParityError, match=r"hf/config\.json has sha256.*delete the folder"):
        find_checkpoint(SOURCE)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["native.safetensors", "hf"])
def test_a_users_weights_in_either_layout_become_the_fixtures_form(layout, tmp_path, monkeypatch):
    made = find_checkpoint(SOURCE)
    monkeypatch.setenv("SPEECH_PARITY_CACHE", str(tmp_path))
    assert find_checkpoint(chosen(made.folder / layout)).digest == made.digest


def test_weights_cannot_be_named_for_a_family_that_brings_its_own():
    with pytest.raises(ParityError, match=r"--checkpoint: given for resampler"):
        chosen_families(["resampler"], None, "mine.safetensors")


def test_an_overlay_that_is_not_declared_is_refused():
    with pytest.raises(ParityError, match=r"nothing: no such overlay.*moshi"):
        overlays.folder("nothing")


def test_overlays_state_what_they_require():
    (entry,) = overlays.describe()
    assert entry["overlay"] == "moshi"
    assert all("==" in requirement for requirement in entry["requires"])
