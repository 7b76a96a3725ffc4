"""The three reports of a stored run with everything in it that a port can do wrong."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import soundfile
from PIL import Image

from harness.errors import ParityError
from harness.runs import Run
from reports import write_reports
from reports.spectrograms import ROWS

URL_ATTRIBUTES = {"src", "href", "srcset", "poster", "action", "data"}
GITHUB_COMMENT_CHARACTERS = 65536


class Page(HTMLParser):
    """The tags of a page, the targets of its links, its ids and its headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.targets: list[str] = []
        self.ids: Counter[str] = Counter()
        self.handlers: list[str] = []
        self.levels: list[int] = []
        self.pictures: list[dict[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        found = dict(attrs)
        self.targets += [value or "" for name, value in attrs if name in URL_ATTRIBUTES]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        if found.get("id"):
            self.ids[str(found["id"])] += 1
        if re.fullmatch(r"h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if tag == "img" or found.get("role") == "img":
            self.pictures.append(found)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def page_of(run: Run) -> Page:
    return Page((run.folder / "report" / "index.html").read_text(encoding="utf-8"))


def gates_of(run: Run) -> list[dict[str, Any]]:
    return [row for family in run.read_json("verdict.json")["families"] for row in family["gates"]]


def test_page_needs_no_network_and_every_link_leads_somewhere(reported: Run):
    page = page_of(reported)
    assert page.targets
    for target in page.targets:
        if target == "data:,":
            continue
        assert not re.match(r"[a-z][a-z0-9+.-]*:|//|/", target), target
        if target.startswith("#"):
            assert page.ids[target[1:]] == 1, target
        else:
            assert (reported.folder / "report" / target).stat().st_size > 0


def test_page_loads_nothing_by_its_style(reported: Run):
    text = (reported.folder / "report" / "index.html").read_text(encoding="utf-8")
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


def test_hostile_text_is_shown_and_never_acts(reported: Run):
    page = page_of(reported)
    assert page.tags["script"] == 1
    assert page.tags["b"] == 0
    assert page.handlers == []
    assert "dataset.hacked" in "".join(page.words)
    assert len((reported.folder / "report" / "index.html").read_text(encoding="utf-8")) < 1_000_000


def test_every_asset_is_used_and_readable(reported: Run):
    folder = reported.folder / "report"
    linked = {folder / target for target in page_of(reported).targets if target.startswith("assets/")}
    assert linked == set((folder / "assets").iterdir())
    for path in linked:
        if path.suffix == ".flac":
            assert soundfile.info(path).subtype == "PCM_16"
        else:
            with Image.open(path) as image:
                assert image.height == ROWS


def test_headings_go_down_one_level_at_a_time_and_pictures_have_texts(reported: Run):
    page = page_of(reported)
    assert page.levels[0] == 1
    assert page.levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(page.levels, page.levels[1:], strict=False))
    assert page.pictures
    assert all(picture.get("alt") or picture.get("aria-label") for picture in page.pictures)


def test_every_status_is_told_in_words(reported: Run):
    words = " ".join("".join(page_of(reported).words).split())
    for status in ("pass", "fail", "error", "not-run"):
        assert re.search(rf"\b{status}\b", words)


def test_page_says_which_clips_are_drawn_and_lists_all(reported: Run):
    words = " ".join("".join(page_of(reported).words).split())
    assert "3 of 3 clips with a failing measurement and the 3 worst of those that pass" in words
    assert "All 12 clips are in the table." in words
    assert "3 could not be compared; the table says why." in words
    for clip in ("voice-00", "stereo", "long", "one-sample", "nothing"):
        assert clip in words


def test_page_gives_the_difference_of_lengths_the_gain_and_the_command(reported: Run):
    words = " ".join("".join(page_of(reported).words).split())
    assert "length 47999, reference 48000: only the first 47999 drawn" in words
    assert re.search(r"amplified 10\^\d times", words)
    assert "parity run resampler --port libsoxr --clips 'my clips' --plant quality-low" in words


def test_junit_has_a_case_for_every_gate_and_pair(reported: Run):
    root = ElementTree.parse(reported.folder / "junit.xml").getroot()
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["resampler", "silero-vad", "empty"]
    for family in reported.read_json("verdict.json")["families"]:
        statuses = Counter(row["status"] for row in family["gates"])
        suite = suites[family["family"]]
        # A family in which nothing was judged is an error of its own.
        vacuous = not family["gates"]
        assert len(suite) == len(family["gates"]) + vacuous == int(suite.get("tests", -1))
        assert len(suite.findall("testcase/failure")) == statuses["fail"] == int(suite.get("failures", -1))
        unjudged = sum(count for status, count in statuses.items() if status not in ("pass", "fail")) + vacuous
        assert len(suite.findall("testcase/error")) == unjudged == int(suite.get("errors", -1))
    assert int(root.get("tests", -1)) == sum(len(suite) for suite in root)


def test_junit_tells_of_an_implementation_that_no_gate_tells_of(stored: Run):
    verdict = stored.read_json("verdict.json")
    verdict["families"][0]["implementations"][0].update(status="error", reason="a clip failed")
    stored.write_json("verdict.json", verdict)
    write_reports(stored)
    errors = ElementTree.parse(stored.folder / "junit.xml").getroot().findall("testsuite/testcase/error")
    assert "error: a clip failed" in [error.get("message") for error in errors]


def test_summary_has_one_row_for_every_gate_that_did_not_pass(reported: Run):
    text = (reported.folder / "summary.md").read_text(encoding="utf-8")
    table = text.split("### Gates that did not pass\n")[1].split("###")[0].strip().splitlines()
    open_gates = [row for row in gates_of(reported) if row["status"] != "pass"]
    assert len(table) - 2 == len(open_gates)
    for line, row in zip(table[2:], open_gates, strict=True):
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        assert len(cells) == 8
        assert row["status"] in cells[0]
        assert row["port"] in cells[2]


def test_summary_is_inert_on_a_pull_request(reported: Run):
    text = (reported.folder / "summary.md").read_text(encoding="utf-8")
    outside = re.sub(r"~~~~sh\n.*?\n~~~~", "", re.sub(r"`[^`\n]*`", "", text), flags=re.S)
    assert "<" not in outside
    assert "@" not in outside
    assert "parity run silero-vad --port crashing --clips 'my clips'" in text


def test_summary_of_many_failures_fits_a_comment(stored: Run):
    verdict = stored.read_json("verdict.json")
    gates = verdict["families"][0]["gates"]
    failing = next(row for row in gates if row["status"] == "fail")
    gates += [{**failing, "gate": f"gate-{number}", "reason": "x" * 500} for number in range(200)]
    stored.write_json("verdict.json", verdict)
    write_reports(stored)
    text = (stored.folder / "summary.md").read_text(encoding="utf-8")
    assert len(text) < GITHUB_COMMENT_CHARACTERS
    assert all(f"`gate-{number} (clips)`" in text for number in range(200))


def test_a_run_that_was_not_judged_is_refused(stored: Run):
    (stored.folder / "verdict.json").unlink()
    with pytest.raises(ParityError, match="parity judge"):
        write_reports(stored)
    assert not (stored.folder / "report").exists()


@pytest.mark.parametrize(
    "lost", ["observations", "inputs", "measurements.parquet", "provenance.json", "implementations.json", "run.json"]
)
def test_what_is_lost_is_told_and_the_rest_is_reported(stored: Run, lost: str):
    path = stored.folder / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    write_reports(stored)
    words = "".join(page_of(stored).words)
    assert "Not whole:" in words or "Not drawn:" in words
    assert lost.removesuffix(".json") in words
    assert page_of(stored).tags["table"] > 5


def test_reporting_again_gives_the_same_and_leaves_nothing_behind(stored: Run):
    def content() -> dict[str, bytes]:
        files = [path for path in (stored.folder / "report").rglob("*") if path.is_file()]
        return {str(path.relative_to(stored.folder)): path.read_bytes() for path in files}

    write_reports(stored)
    first = content()
    (stored.folder / "report" / "assets" / "stale.png").write_bytes(b"old")
    write_reports(stored)
    assert content() == first
    assert not list(stored.folder.glob(".partial*"))


def test_a_value_of_nan_is_shown_as_such_and_the_clip_as_failing(reported: Run):
    text = (reported.folder / "report" / "index.html").read_text(encoding="utf-8")
    cell = re.search(r'<td class="figure fail" data-value="nan"[^>]*>([^<]*)</td>', text)
    assert cell
    assert cell.group(1).strip() == "✗ NaN"


def test_a_folder_that_cannot_be_written_is_refused(stored: Run):
    (stored.folder / "junit.xml").mkdir()
    with pytest.raises(ParityError, match="could not be written"):
        write_reports(stored)


def test_a_gates_own_limit_does_not_mark_clips_when_it_judges_a_rate(stored: Run):
    verdict = json.loads((stored.folder / "verdict.json").read_text(encoding="utf-8"))
    row = next(row for row in verdict["families"][0]["gates"] if row["status"] == "fail" and row["gate"] == "max-abs")
    # A rate of clips: the value is none of the clips' own.
    row.update(value=0.2, limit=0.0)
    stored.write_json("verdict.json", verdict)
    write_reports(stored)
    words = " ".join("".join(page_of(stored).words).split())
    # stereo is the worst clip, voice-05 holds the NaN; voice-03 is not known to have a part in the failure.
    assert "Drawn: 2 of 2 clips with a failing measurement" in words


def test_nothing_is_left_of_an_interrupted_report(stored: Run, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("reports.audio.player", interrupt)
    monkeypatch.setattr("reports.details.resampler.player", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_reports(stored)
    assert not list(Path(stored.folder).glob("*report*"))
