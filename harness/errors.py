"""The errors a user meets, each with what was found, what was expected and what to do.

Conventions: `ParityError` means that nothing could be judged (exit status 2); a defect of a port is never an exception,
it is a measurement.
"""

from __future__ import annotations


class ParityError(Exception):
    """Something outside the models is wrong: a file, an option, a declaration.

    The message reads `where: found; expected …; remedy`.
    """

    def __init__(self, where: object, found: str, expected: str = "", remedy: str = "") -> None:
        self.where = str(where)
        self.found = found
        self.expected = expected
        self.remedy = remedy
        parts = [found]
        if expected:
            parts.append(f"expected {expected}")
        if remedy:
            parts.append(remedy)
        super().__init__(f"{self.where}: {'; '.join(parts)}")


class Unavailable(Exception):
    """An implementation cannot run on this machine: a package or a native library is missing.

    Raised by an implementation's constructor; its verdict is then `not-run` with this message, which must say how to
    install what is missing.
    """
