"""The rendering package: a stored run as an HTML page, a Markdown summary and a JUnit file."""

from __future__ import annotations

import shutil
from pathlib import Path

from harness.errors import ParityError
from harness.runs import Run
from reports.proof import CONTENTS as PROOFS
from reports.proof import write_proof

__all__ = ("PROOFS", "write_proof", "write_reports")


def write_reports(run: Run) -> Path:
    """Write `report/index.html` with its assets, `junit.xml` and `summary.md` from a stored run; returns the page.

    No model is run. Missing or damaged observations are shown as such. Raises ParityError when the run was not judged,
    or when its folder cannot be written.
    """
    from reports.html import write_page
    from reports.junit import junit
    from reports.markdown import summary
    from reports.stored import read_stored

    stored = read_stored(run)
    final = run.folder / "report"
    # Under another name first, so that an interrupted report never looks like a whole one.
    partial = run.folder / ".partial-report"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        write_page(stored, partial)
        (run.folder / "junit.xml").write_text(junit(stored), encoding="utf-8")
        (run.folder / "summary.md").write_text(summary(stored), encoding="utf-8")
        if final.exists():
            shutil.rmtree(final)
        partial.rename(final)
    except OSError as error:
        raise ParityError(
            run.folder, f"the report could not be written ({error.strerror or error})", remedy="free or choose space"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return final / "index.html"
