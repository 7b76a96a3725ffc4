"""Tracing: what is compared, what explains it, and real faults found in the real port."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from harness.diagnosis.drawing import bar, print_trace
from harness.diagnosis.explain import explain, is_convincing
from harness.diagnosis.recording import optional_observation
from harness.diagnosis.taps import RESOLUTION, classify, compare_taps
from harness.diagnosis.trace import exit_status, trace
from harness.errors import ParityError
from harness.families import load_families
from harness.family import Fault, Replacement, Stage
from harness.observations import TAP_PREFIX, Observation, write_observation
from harness.runs import Run

(SILERO,) = load_families(["silero-vad"])
(RESAMPLER,) = load_families(["resampler"])
CLIP = "noise-16000-16000"  # one second


# Which taps each fault touches by itself, and not by what is handed on.
OWN = {"state-reset": {"lstm_h", "lstm_c"}, "power-spectrum": {"spectrum"}, "no-final-relu": {"logit"}}


class Silent:
    """A listener that tells nobody."""

    def started(self, implementation: str, clips: int) -> None: ...
    def advanced(self, implementation: str, clip: str) -> None: ...
    def ended(self, implementation: str, status: str, reason: str) -> None: ...


def observed(outputs: dict[str, np.ndarray], taps: dict[str, np.ndarray] | None = None) -> Observation:
    tensors = {**outputs, **{TAP_PREFIX + name: tap for name, tap in (taps or {}).items()}}
    return Observation("family/name", "clip", "digest", "1", tensors, taps=tuple(taps or ()))


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).uniform(-1, 1, shape).astype(np.float32)


def bfloat16(values: np.ndarray) -> np.ndarray:
    torch = pytest.importorskip("torch")
    return torch.from_numpy(values).to(torch.bfloat16).to(torch.float32).numpy()


CHANGES = {
    "gain of 0.5": lambda item: item * np.float32(0.5),
    "sign reversed": np.negative,
    "late by 3 elements": lambda item: np.concatenate([0 * item[:, :3], item[:, :-3]], axis=1),
    "late by -2 elements": lambda item: np.concatenate([item[:, 2:], 0 * item[:, :2]], axis=1),
    "channels in the order 2, 0, 1": lambda item: item[[2, 0, 1]],
    "rounded to float16": lambda item: item.astype(np.float16).astype(np.float32),
    "rounded to bfloat16": bfloat16,
    "rounded to 16-bit integers": lambda item: (np.rint(item * 32768) / 32768).astype(np.float32),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_simple_change_explains_itself_first(name: str) -> None:
    item = noise(3, 400)
    found = explain(observed({"y": item}), observed({"y": CHANGES[name](item)}), {}, {})
    assert found[0].fault == name
    assert found[0].explained == pytest.approx(1.0, abs=1e-9)
    assert is_convincing(found)


def test_an_unrelated_output_is_not_explained() -> None:
    item = noise(400)
    found = explain(observed({"y": item}), observed({"y": item + noise(800)[400:]}), {}, {})
    assert found
    assert not is_convincing(found)
    assert all(0 <= other.explained < 0.9 for other in found)


def test_a_collapsed_output_is_not_explained_by_a_small_gain() -> None:
    item = 1 + noise(400) / 4
    found = explain(observed({"y": item}), observed({"y": noise(800)[400:] / 50}), {}, {})
    assert any(other.fault.startswith("gain") for other in found)
    assert not is_convincing(found)


def test_a_fault_explains_what_cannot_be_subtracted() -> None:
    """A shorter output, another dtype, and a tap that is missing are explained by a fault that makes the same ones."""
    item, tap = noise(10), noise(4)
    cases = {
        "short": observed({"y": item[:-1]}, {"t": tap}),
        "wide": observed({"y": item.astype(np.float64)}, {"t": tap}),
        "untapped": observed({"y": item}, {"u": tap}),
    }
    reference = observed({"y": item}, {"t": tap, "u": tap})
    for name, port in cases.items():
        found = explain(reference, port, cases, dict.fromkeys(cases, ""))
        assert (found[0].fault, found[0].explained) == (name, 1.0)
        assert found[1].explained < 0.9


def test_an_error_of_nan_is_explained_by_nothing() -> None:
    item = noise(10)
    found = explain(observed({"y": item}), observed({"y": np.full_like(item, np.nan)}), {}, {})
    assert found
    assert {other.explained for other in found} == {0.0}


def test_taps_of_other_names_and_layouts_are_matched_by_the_declaration() -> None:
    item = noise(3, 4, 5)
    stages = (Stage("conv", port_tap="encoder.0", axes=(0, 2, 1)),)
    port = observed({}, {"encoder.0": item.transpose(0, 2, 1).copy()})
    (tap,) = compare_taps(observed({}, {"conv": item}), port, {}, stages)
    assert (tap.tap, tap.error, tap.floor) == ("conv", 0.0, RESOLUTION)
    listed = compare_taps(observed({}, {"conv": item}), port, {})
    assert [(tap.tap, tap.error) for tap in listed] == [("conv", None), ("encoder.0", None)]


def test_an_observation_with_nan_is_read_so_that_its_tap_is_found(tmp_path: Path) -> None:
    run, item = Run(tmp_path), noise(4)
    write_observation(
        run.observation("family/port", "clip"), observed({}, {"a": item, "b": np.full_like(item, np.nan)})
    )
    port = optional_observation(run, "family/port", "clip")
    assert port is not None
    taps = classify(compare_taps(observed({}, {"a": item, "b": item}), port, {}))
    assert [(tap.tap, tap.status) for tap in taps] == [("a", "agrees"), ("b", "diverges")]
    assert taps[1].note == "4 NaN, the first at [0]"


def test_an_empty_tap_is_no_agreement() -> None:
    (tap,) = compare_taps(observed({}, {"t": noise(0)}), observed({}, {"t": noise(0)}), {})
    assert tap.error == float("inf")


@pytest.mark.parametrize(
    ("statuses", "first", "has_taps", "status"),
    [
        (["agrees", "agrees"], None, True, 0),
        (["agrees", "diverges", "inherited"], "t", True, 1),
        (["agrees", "unmatched"], None, True, 2),
        (["diverges", "unmatched"], "t", True, 1),
        (["agrees"], None, False, 2),
        (["diverges"], "output/y", False, 2),
        ([], None, True, 2),
    ],
)
def test_exit_status(statuses: list[str], first: str | None, has_taps: bool, status: int) -> None:
    taps = [{"tap": "t", "status": item} for item in statuses]
    assert exit_status({"taps": taps, "first_divergence": first, "has_taps": has_taps}) == status


def test_the_bar_is_full_for_what_cannot_be_compared_and_empty_for_what_is_not_there() -> None:
    lengths = [bar({"status": "agrees", "error": error, "floor": 1.0}).count("█") for error in (0.0, 1e-4, 1e-2, None)]
    assert lengths[0] == 0
    assert lengths == sorted(set(lengths))
    assert bar({"status": "unmatched", "error": None, "floor": 1e-6}) == ""


@pytest.mark.parametrize(
    ("port", "clip", "plant"),
    [
        ("torchscript", None, None),
        ("none", None, None),
        ("numpy", "no-such-clip", None),
        ("numpy", CLIP, "no-such-fault"),
        ("numpy", CLIP, "v5-weights"),
    ],
)
def test_wrong_names_are_refused(port: str, clip: str | None, plant: str | None, tmp_path: Path) -> None:
    with pytest.raises(ParityError):
        trace(SILERO, port, clip, plant, Silent(), tmp_path, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "first"),
    [(None, None), ("state-reset", "lstm_h"), ("power-spectrum", "spectrum"), ("no-final-relu", "logit")],
)
def test_a_fault_in_the_real_port_is_found_and_explained(
    plant: str | None, first: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = trace(SILERO, "numpy", CLIP, plant, Silent(), tmp_path, None)
    assert content["first_divergence"] == first
    assert exit_status(content) == (1 if plant else 0)
    assert not content["notes"]
    rows = [row for row in content["taps"] if not row["tap"].startswith("output/")]
    assert len(rows) == 10
    assert {row["tap"] for row in rows if not row["isolated"] <= row["floor"]} == OWN.get(plant, set())
    if plant:
        assert (content["explanations"][0]["fault"], content["explanations"][0]["explained"]) == (plant, 1.0)
        assert content["convincing"]
    print_trace(content)
    assert (first or "no divergence") in capsys.readouterr().out


@pytest.mark.slow
def test_another_engine_without_taps_is_explained_by_the_faults_of_our_port(tmp_path: Path) -> None:
    """The same mistake made in front of ONNX Runtime is predicted by the fault in our own network."""
    mistake = Replacement("ports.silero_vad:with_context", replacement="harness.families.silero_vad:without_context")
    secret = Fault("secret", "", "silero-vad/onnx", "", mistake)
    family = dataclasses.replace(SILERO, faults=(*SILERO.faults, secret))
    content = trace(family, "onnx", CLIP, "secret", Silent(), tmp_path, None)
    ours = [item for item in content["explanations"] if item["fault"] != "secret"]
    assert ours[0]["fault"] == "no-context"
    assert ours[0]["explained"] > 0.999
    assert exit_status(content) == 2
    assert any("no taps" in note for note in content["notes"])


@pytest.mark.slow
def test_the_clip_that_differs_most_is_chosen(short_clips: Path, tmp_path: Path) -> None:
    family = dataclasses.replace(RESAMPLER, faults=(RESAMPLER.fault("channels-swapped"),))
    content = trace(family, "libsoxr", None, "channels-swapped", Silent(), tmp_path, short_clips)
    assert content["clip"] == "three"
    assert content["explanations"][0]["fault"] in ("channels-swapped", "channels in the order 1, 0")
