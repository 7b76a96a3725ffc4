"""The harness's side of a worker: start it, ask it, and end it whatever it does."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from types import TracebackType
from typing import Any

from harness import overlays
from harness.checkpoints import Checkpoint
from harness.family import Implementation
from harness.plan import Execution
from harness.runners.environment import worker_environment

KEPT_LINES = 40
KEPT_LINE_CHARACTERS = 500
ANSWER_LIMIT_BYTES = 1 << 20


class WorkerLost(Exception):
    """The worker crashed, hung, or answered out of the protocol; the message says which, and what it printed last."""


class Worker:
    """A process that serves one implementation. Use as a context manager: leaving it ends the whole process group."""

    def __init__(self, execution: Execution, task: str, checkpoint: Checkpoint | None = None) -> None:
        self.implementation = implementation = execution.implementation
        self._printed: collections.deque[str] = collections.deque(maxlen=KEPT_LINES)
        self._buffer = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.runners.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=worker_environment(execution.threads, _python_path(implementation)),
            start_new_session=True,
        )
        assert self._process.stdout
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        declaration = {
            "implementation": implementation.name,
            "task": task,
            "factory": implementation.factory,
            "packages": list(implementation.packages),
            "remedy": implementation.remedy,
            "variant": execution.variant,
            "fault": execution.fault.name if execution.fault else "",
            "changes": [asdict(change) for change in execution.changes],
            "ulp": execution.variation.ulp if execution.variation else 0,
            "checkpoint": str(checkpoint.folder) if checkpoint else "",
            "checkpoint_digest": checkpoint.digest if checkpoint else "",
        }
        self._send(declaration)

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def last_lines(self) -> list[str]:
        """What the worker printed last."""
        return list(self._printed)

    def wait_ready(self) -> dict[str, Any]:
        """The first answer: `ready`, `unavailable` or `failed`. Raises WorkerLost."""
        return self._receive(self.implementation.load_timeout_s, "while loading")

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a request and wait for its answer. Raises WorkerLost."""
        self._send(request)
        return self._receive(timeout_s, f"on clip {request['clip']['id']}")

    def stop(self) -> None:
        """End the process group, gently first when it is idle; no process is left behind."""
        assert self._process.stdin
        assert self._process.stdout
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._process.stdin.close()
            self._process.wait(timeout=0.5)
        self._kill()
        self._selector.close()
        self._process.stdout.close()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._listener.join(timeout=2)

    def _listen(self) -> None:
        """Keep the last lines of standard error, whatever its volume and encoding."""
        assert self._process.stderr
        with self._process.stderr as stream:
            while line := stream.readline(1 << 16):
                text = line.decode("utf-8", "replace").rstrip()[:KEPT_LINE_CHARACTERS]
                if text:
                    self._printed.append(text)

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin
        with contextlib.suppress(OSError):  # the next receive tells how the worker ended
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def _receive(self, timeout_s: float, when: str) -> dict[str, Any]:
        assert self._process.stdout
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not self._selector.select(remaining):
                self._kill()
                raise WorkerLost(self._with_last_lines(f"no answer within {timeout_s:g} s {when}; killed"))
            data = os.read(self._process.stdout.fileno(), 1 << 16)
            if not data:
                raise WorkerLost(self._with_last_lines(f"{self._how_it_ended()} {when}"))
            self._buffer += data
            if len(self._buffer) > ANSWER_LIMIT_BYTES:
                self._kill()
                raise WorkerLost(f"an answer of more than {ANSWER_LIMIT_BYTES} bytes {when}; killed")
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError as error:
            self._kill()
            raise WorkerLost(self._with_last_lines(f"not an answer {when}: {line[:80]!r}")) from error
        if not isinstance(answer, dict):
            self._kill()
            raise WorkerLost(f"not an answer {when}: {line[:80]!r}")
        return answer

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._kill()
            return "closed its output and was killed"
        self._kill()
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"

    def _with_last_lines(self, reason: str) -> str:
        self._listener.join(timeout=0.5)
        tail = " | ".join(self.last_lines[-3:])
        return f"{reason}; last lines: {tail}" if tail else reason


def _python_path(implementation: Implementation) -> tuple[str, ...]:
    own = (str(overlays.folder(implementation.overlay)),) if implementation.overlay else ()
    return (*own, *implementation.python_path)
