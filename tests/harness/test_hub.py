"""Real weights by name: fetched at the pinned revision from a hub that answers on loopback, and used by a whole run."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.checkpoints import find_checkpoint
from harness.families.mimi import FAMILY, HUB

NAME = "kyutai/mimi"
PINNED = HUB[NAME]
AGAIN = f"""
import dataclasses
from harness.checkpoints import find_checkpoint
from harness.families.mimi import FAMILY
print(find_checkpoint(dataclasses.replace(FAMILY.checkpoint, chosen="{NAME}")).digest)
"""
CLIPS = Path(__file__).parents[2] / "golden/clips"


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers `resolve` of one repository at one revision, with the headers that the client needs."""

    folder: Path
    asked: list[str]

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body):
        self.asked.append(self.path)
        prefix = f"/{NAME}/resolve/{PINNED.revision}/"
        path = self.folder / self.path.removeprefix(prefix)
        if not self.path.startswith(prefix) or not path.is_file():
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("X-Repo-Commit", PINNED.revision)
        self.send_header("ETag", f'"{hashlib.sha256(path.name.encode()).hexdigest()}"')
        self.send_header("Content-Length", str(path.stat().st_size))
        self.end_headers()
        if body:
            with path.open("rb") as stream:
                shutil.copyfileobj(stream, self.wfile)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(tmp_path):
    """A hub that serves a folder, the environment that points to it, and what it was asked."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = type("Handler", (Hub,), {"folder": folder, "asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {
        **os.environ,
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(tmp_path / "hub"),
        "SPEECH_PARITY_CACHE": str(tmp_path / "cache"),
    }
    yield folder, environment, handler.asked
    server.shutdown()
    server.server_close()


def run(environment, tmp_path, *options):
    """`parity run mimi` on one short clip with the named weights."""
    clips = tmp_path / "clips"
    clips.mkdir(exist_ok=True)
    shutil.copy(CLIPS / "us-market.flac", clips)
    command = ["run", "mimi", "--port", "torch", "--reference", "hf", "--checkpoint", NAME]
    command += ["--clips", clips, "--runs", tmp_path / "runs"]
    return subprocess.run(
        [sys.executable, "-m", "harness.cli", *map(str, command), "--json", *options],
        env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_weights_of_the_hub_are_fetched_once_at_the_pinned_revision_and_judged(hub, tmp_path):
    folder, environment, asked = hub
    made = find_checkpoint(FAMILY.checkpoint)
    for name in PINNED.files:
        (folder / name).symlink_to(made.folder / "hf" / name)
    done = run(environment, tmp_path)
    assert done.returncode == 0, done.stderr
    (outcomes,) = (tmp_path / "runs").glob("*/implementations.json")
    digests = {item["name"]: item["checkpoint_digest"] for item in json.loads(outcomes.read_text())}
    assert digests == dict.fromkeys(("mimi/hf", "mimi/torch"), made.digest)
    fetched = [path for path in asked if "/resolve/" in path]
    assert {path.rpartition("/")[2] for path in fetched} == set(PINNED.files)
    assert all(f"/resolve/{PINNED.revision}/" in path for path in fetched)
    again = subprocess.run(
        [sys.executable, "-c", AGAIN], env={**environment, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert again.stdout.strip() == made.digest, again.stderr


def test_a_hub_without_the_files_is_an_error_that_names_repository_and_revision(hub, tmp_path):
    _, environment, _ = hub
    done = run(environment, tmp_path)
    assert done.returncode == 2
    assert f"{NAME} at revision {PINNED.revision}: could not be fetched" in done.stderr
    assert "name a local path" in done.stderr
    assert not (tmp_path / "runs").exists()
