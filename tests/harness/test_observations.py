"""Reading an observation refuses everything that its contract does not allow, and names the file."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from harness.errors import ParityError
from harness.observations import Observation, read_observation, write_observation


@pytest.fixture
def observation() -> Observation:
    return Observation(
        implementation="resampler/mine",
        clip="a",
        clip_digest="d" * 64,
        version="1",
        tensors={"x": np.arange(3, dtype=np.float32), "tap/one": np.ones((2, 2), dtype=np.float32)},
        taps=("one",),
        timings={"x": 0.5},
        warnings=("careful",),
    )


def test_what_is_written_is_read_back(tmp_path: Path, observation: Observation) -> None:
    write_observation(tmp_path / "o", observation)
    read = read_observation(tmp_path / "o")
    assert dataclasses.replace(read, tensors={}) == dataclasses.replace(observation, tensors={})
    for name, array in observation.tensors.items():
        assert read.tensors[name].tobytes() == array.tobytes()


def test_writing_again_replaces_and_leaves_nothing_beside(tmp_path: Path, observation: Observation) -> None:
    write_observation(tmp_path / "o", observation)
    write_observation(tmp_path / "o", dataclasses.replace(observation, version="2"))
    assert read_observation(tmp_path / "o").version == "2"
    assert [path.name for path in tmp_path.iterdir()] == ["o"]


def change_head(folder: Path, **changes: object) -> None:
    path = folder / "observation.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 99}, "schema_version 99"),
        ({"schema_version": None}, "schema_version None"),
        ({"tensors": {}}, "are not stated"),
        ({"tensors": {"x": {"dtype": "float32", "shape": [3]}, "y": {"dtype": "float32", "shape": [1]}}}, "missing"),
        ({"tensors": []}, "an object of dtype and shape"),
        ({"clip": 3}, "clip is 3"),
        ({"taps": ["two"]}, "tap two has no tensor"),
        ({"surprise": 1}, "unknown keys"),
    ],
)
def test_a_wrong_head_is_refused(
    tmp_path: Path, observation: Observation, changes: dict[str, object], message: str
) -> None:
    write_observation(tmp_path / "o", observation)
    change_head(tmp_path / "o", **changes)
    with pytest.raises(ParityError, match=message) as caught:
        read_observation(tmp_path / "o")
    assert str(tmp_path / "o") in str(caught.value)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.arange(3, dtype=np.float64), "float64"),
        (np.arange(4, dtype=np.float32), r"\[4\]"),
        (np.array([0, np.nan, 1], dtype=np.float32), r"holds 1 NaN, the first at \[1\]"),
    ],
)
def test_a_wrong_tensor_is_refused(tmp_path: Path, observation: Observation, array: np.ndarray, message: str) -> None:
    write_observation(tmp_path / "o", observation)
    save_file({**observation.tensors, "x": array}, tmp_path / "o" / "tensors.safetensors")
    with pytest.raises(ParityError, match=message) as caught:
        read_observation(tmp_path / "o")
    assert "tensors.safetensors" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not json", b"[1]", b"\xff\xfe", b"[" * 100000])
def test_a_damaged_head_is_refused(tmp_path: Path, observation: Observation, content: bytes) -> None:
    write_observation(tmp_path / "o", observation)
    (tmp_path / "o" / "observation.json").write_bytes(content)
    with pytest.raises(ParityError, match=r"observation\.json"):
        read_observation(tmp_path / "o")


@pytest.mark.parametrize("content", [b"", b"x" * 7, b"\xff" * 64, (2**62).to_bytes(8, "little") + b"{}"])
def test_damaged_tensors_are_refused(tmp_path: Path, observation: Observation, content: bytes) -> None:
    write_observation(tmp_path / "o", observation)
    (tmp_path / "o" / "tensors.safetensors").write_bytes(content)
    with pytest.raises(ParityError, match=r"tensors\.safetensors"):
        read_observation(tmp_path / "o")


@pytest.mark.parametrize("name", ["observation.json", "tensors.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, observation: Observation, name: str) -> None:
    write_observation(tmp_path / "o", observation)
    (tmp_path / "o" / name).unlink()
    with pytest.raises(ParityError, match=name):
        read_observation(tmp_path / "o")
