"""The verdict as JUnit XML: one suite per family, one case per gate and pair.

Conventions: `fail` becomes a failure; whatever could not be judged (`error`, `not-run`, `inconclusive`,
`not-comparable`) becomes an error, because CI systems count a skipped case as harmless.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

from harness.plan import bare
from reports.stored import StoredRun, bounded

DECLARATION = '<?xml version="1.0" encoding="utf-8"?>\n'
MESSAGE_CHARACTERS = 2000


def junit(stored: StoredRun) -> str:
    """The JUnit document of a run."""
    root = ElementTree.Element("testsuites", name=f"parity {stored.run.id}")
    totals = {"tests": 0, "failures": 0, "errors": 0}
    for family in stored.verdict["families"]:
        suite = ElementTree.SubElement(root, "testsuite", name=family["family"])
        suite.extend(_cases(stored, family))
        counts = {
            "tests": len(suite),
            "failures": len(suite.findall("testcase/failure")),
            "errors": len(suite.findall("testcase/error")),
        }
        for name, count in counts.items():
            suite.set(name, str(count))
            totals[name] += count
    for name, count in totals.items():
        root.set(name, str(count))
    ElementTree.indent(root)
    return DECLARATION + ElementTree.tostring(root, encoding="unicode") + "\n"


def _cases(stored: StoredRun, family: Mapping[str, Any]) -> Iterator[ElementTree.Element]:
    for row in family["gates"]:
        name = f"{row['gate']} [{row['scope']}] {row['port']} against {row['reference']}"
        command = stored.command(row["reference"], row["port"])
        yield _case(family["family"], row["port"], name, row["status"], row["reason"], command)
    yield from _unspoken(stored, family)


def _unspoken(stored: StoredRun, family: Mapping[str, Any]) -> Iterator[ElementTree.Element]:
    """Implementations whose trouble no gate tells of: without these the file would be greener than the verdict."""
    told = {(bare(side), row["status"]) for row in family["gates"] for side in (row["port"], row["reference"])}
    for item in family["implementations"]:
        if item["status"] != "pass" and (item["name"], item["status"]) not in told:
            command = stored.command(item["name"], item["name"])
            yield _case(family["family"], item["name"], item["name"], item["status"], item["reason"], command)
    if not family["gates"] and not family["implementations"]:
        yield _case(family["family"], family["family"], "gates", "error", "nothing was judged", "")


def _case(family: str, port: str, name: str, status: str, reason: str, command: str) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase", classname=bounded(f"parity.{family}.{port.partition('/')[2] or port}", 200), name=bounded(name, 300)
    )
    if status != "pass":
        outcome = ElementTree.SubElement(case, "failure" if status == "fail" else "error", type=status)
        outcome.set("message", bounded(f"{status}: {reason}", MESSAGE_CHARACTERS))
        outcome.text = bounded(f"{status}: {reason}\nreproduce with: {command}", MESSAGE_CHARACTERS)
    return case
