"""The project's own gates, proven on whole families: nothing is patched or left out here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.console import PlainListener
from harness.diagnosis import prove
from harness.families import load_families
from harness.family import Family
from harness.pipeline import GOLDEN
from harness.runs import Run
from tests.diagnosis.rejudging import assess_again, without_gate

GATES = GOLDEN / "gates"
LISTENER = PlainListener(Console(stderr=True))
# What must see each fault; other gates may see it too.
CAUGHT_BY = {
    "lq-instead-of-hq": {"max-abs", "passband-ripple", "stopband", "speech-gate", "speech-frames", "speech-envelope"},
    "mq-instead-of-hq": {"max-abs", "passband-ripple", "stopband"},
    "kaiser-sinc": {"max-abs", "passband-ripple", "speech-gate", "speech-frames"},
    "linear-interpolation": {"max-abs", "stopband", "alias", "thd-n", "delay"},
    "resample-poly": {"max-abs", "stopband", "alias", "thd-n"},
    "exact-rational-ceil": {"length"},
    "own-length": {"length"},
    "no-flush": {"max-abs"},
    "one-sample-delay": {"max-abs", "delay"},
    "sqrt-ratio-scale": {"max-abs", "passband-ripple"},
    "handle-per-block": {"stream"},
    "int16-input": {"max-abs", "identity", "thd-n"},
    "int16-units": {"max-abs", "speech-level"},
    "float64-output": {"dtype"},
    "channels-swapped": {"max-abs"},
    "assumed-source-rate": {"length", "speech-duration"},
    "no-context": {"probability", "decisions", "taps"},
    "early-context": {"probability", "decisions", "taps"},
    "state-reset": {"probability", "decisions", "segments", "taps"},
    "symmetric-padding": {"probability", "decisions", "taps"},
    "zero-padding": {"probability", "taps"},
    "v5-weights": {"probability", "decisions", "segments"},
    "other-training": {"probability", "decisions", "taps"},
    "lstm-gate-order": {"probability", "decisions", "segments", "taps"},
    "power-spectrum": {"probability", "decisions", "segments", "taps"},
    "no-final-relu": {"probability", "decisions", "segments", "taps"},
    "int16-units-vad": {"probability", "decisions", "taps"},
    "last-chunk-dropped": {"length"},
    "half-weights": {"probability", "taps"},
    "float64-probability": {"dtype"},
    "stream-without-context": {"stream"},
    "tap-missing": {"taps-complete"},
    "no-context-onnx-half": {"probability", "decisions"},
    "half-level-ggml": {"probability-ggml", "decisions-ggml", "segments-ggml"},
    "layer-norm-eps": {"roots", "latents", "taps"},
    "zero-padded-downsample": {"roots", "latents", "taps"},
    "rope-halves": {"roots", "latents", "decode", "taps"},
    "tanh-gelu": {"latents", "decode", "taps"},
    "no-usage-clamp": {"roots", "decode", "taps"},
    "undivided-codebook": {"roots", "decode", "taps"},
    "float16-distance": {"roots"},
    "no-layer-scale": {"roots", "latents", "decode", "taps"},
    "unlimited-context": {"roots", "latents", "decode"},
    "state-reset-between-chunks": {"stream", "stream-decode"},
    "float16-decoder": {"decode", "stream-decode", "taps"},
    "codebook-order": {"roots", "order"},
    "semantic-last": {"roots", "order"},
    "one-upsampling-kernel": {"decode", "taps"},
    "one-frame-delay": {"roots", "late"},
    "partial-frame-dropped": {"frames", "stream"},
    "state-kept": {"again", "roots"},
    "batch-order": {"batch"},
    "int32-codes": {"dtype"},
    "trimmed-decode": {"samples", "decode"},
    "downsample-tap-missing": {"taps-complete"},
    "codebook-missing": {"codebooks"},
    "bfloat16-rope-halves": {"bfloat16-margin", "bfloat16-decode"},
    "float16-rope-halves": {"float16-margin", "float16-decode"},
}
Proven = tuple[Family, dict[str, Any]]


@pytest.fixture(scope="module", params=load_families(), ids=lambda family: family.name)
def proven(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proven]:
    """A family with what `parity prove` says of it: on record where CI has just run it, else made here and deleted."""
    family: Family = request.param
    if folder := os.environ.get("SPEECH_PARITY_PROVEN"):
        (run,) = (Run(path.parent) for path in Path(folder, family.name).glob("*/faults.json"))
        yield family, {"run": run.folder, **{name: run.read_json(f"{name}.json") for name in ("faults", "floor")}}
        return
    content = prove.prove(family, LISTENER, tmp_path_factory.mktemp("runs"), None, GATES)
    yield family, content
    shutil.rmtree(content["run"])


def test_every_fault_has_its_gates_stated() -> None:
    assert sorted(fault.name for family in load_families() for fault in family.faults) == sorted(CAUGHT_BY)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_fault_is_caught_and_every_gate_is_needed_or_said_to_be_redundant(proven: Proven, tmp_path: Path) -> None:
    family, both = proven
    content = both["faults"]
    assert content["unjudged"] == content["survived"] == content["false_alarms"] == content["unproven_gates"] == []
    assert all(fault["status"] == "caught" for fault in content["faults"])
    for fault in content["faults"]:
        assert set(fault["caught_by"]) >= CAUGHT_BY[fault["fault"]], fault["fault"]
    run = Run(Path(both["run"]))
    for gate in content["gates"]:
        again = assess_again(family, run, without_gate(gate, family.name, tmp_path / "gates"))
        assert bool(again["survived"]) != (gate in content["redundant_gates"]), gate


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_limit_of_the_project_is_sound(proven: Proven) -> None:
    content = proven[1]["floor"]
    assert content["unjudged"] == []
    assert {gate["gate"]: gate["state"] for gate in content["gates"] if gate["state"] != "sound"} == {}
