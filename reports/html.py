"""The page: one file that opens from disk, with its sounds and pictures in a folder beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from reports.audio import Assets
from reports.stored import SIGNS, StoredRun, bounded, number, without_command
from reports.views import family_views

TEMPLATES = Path(__file__).parent / "templates"
LAST_LINES = 20
LINE_CHARACTERS = 300


def write_page(stored: StoredRun, folder: Path) -> None:
    """Write `index.html` and `assets/` into a folder. Raises OSError."""
    folder.mkdir(parents=True)
    families = list(family_views(stored, Assets(folder / "assets")))
    page = environment().get_template("page.html.j2")
    text = page.render(
        run=stored.run.id,
        verdict=stored.verdict,
        request=stored.request,
        families=families,
        provenance=stored.provenance,
        environment=_flat(stored.provenance.get("environment", {})),
        machine={"python": stored.provenance.get("python", ""), **stored.provenance.get("machine", {})},
        problems=stored.problems,
    )
    (folder / "index.html").write_text(text, encoding="utf-8")


def environment() -> Environment:
    """Templates with autoescape on, and the filters they use."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=select_autoescape(enabled_extensions=("j2",), default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "bounded": bounded,
        "number": number,
        "last_lines": _last_lines,
        "without_command": without_command,
    }
    made.globals |= {"signs": SIGNS}
    return made


def _last_lines(lines: list[str]) -> str:
    return "\n".join(bounded(line, LINE_CHARACTERS) for line in lines[-LAST_LINES:])


def _flat(content: Mapping[str, Any]) -> dict[str, str]:
    """Nested settings as one list of names and texts."""
    flat: dict[str, str] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            flat |= {f"{name} {key}": text for key, text in _flat(value).items()} or {name: "none"}
        else:
            flat[name] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return flat
