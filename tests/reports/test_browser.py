"""The page in a real browser: it opens from disk, its script runs to the end, and it is not blank."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.runs import Run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium"),
]


def browse(run: Run, profile: Path, *options: str, fragment: str = "") -> str:
    page = (run.folder / "report" / "index.html").resolve().as_uri()
    command = [str(CHROMIUM), *OPTIONS, f"--user-data-dir={profile}", *options, page + fragment]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def test_script_runs_to_its_end_without_error(reported: Run, tmp_path: Path):
    dom = browse(reported, tmp_path / "profile", "--dump-dom", fragment="#family-0-0-0")
    root = re.search(r"<html[^>]*>", dom)
    assert root
    assert 'data-ready="true"' in root.group()
    assert "data-error" not in root.group()
    assert "data-hacked" not in root.group()
    # The link leads into a closed part, which the script opened.
    before = dom[: dom.index('id="family-0-0-0"')]
    assert re.findall(r'<details class="gates"[^>]*>', before)[-1] == '<details class="gates" open="">'


def test_screenshot_is_not_blank_and_nothing_overflows(reported: Run, tmp_path: Path):
    picture = tmp_path / "page.png"
    browse(reported, tmp_path / "profile", f"--screenshot={picture}", "--window-size=1280,2400")
    with Image.open(picture) as image:
        pixels = np.asarray(image.convert("L"), dtype=float)
    assert pixels.shape == (2400, 1280)
    # Text and figures in the middle, an empty margin at the right: what overflowed would stand there.
    assert pixels[:, 240:1200].std() > 10
    assert pixels[:, 1270:].std() < 2
