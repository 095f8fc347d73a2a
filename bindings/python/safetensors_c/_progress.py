"""A bar that shows how far a load or a save has come.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import contextlib
import sys
import time


def shown(progress, what: str = "loading"):
    """A context whose value is what is to be called: a bar for True, None for False, else the caller's function."""
    return Bar(what=what) if progress is True else contextlib.nullcontext(progress or None)


class Bar:
    """On a terminal, redraws one line. Elsewhere, writes only the last state, as one line. Writes nothing if the stream is
    missing, closed or a broken pipe."""

    WIDTH = 30

    def __init__(self, stream=None, what: str = "loading"):
        self._what = what
        self._stream = stream or sys.stderr
        self._live = False
        with _unless_broken():
            self._live = self._stream.isatty()
        self._begin = time.monotonic()
        self._text = ""

    def __enter__(self) -> Bar:
        return self

    def __call__(self, done: int, total: int) -> None:
        seconds = max(time.monotonic() - self._begin, 1e-9)
        filled = self.WIDTH * done // total if total else self.WIDTH
        self._text = (f"{self._what} [{'#' * filled}{'.' * (self.WIDTH - filled)}] {_bytes(done)} of {_bytes(total)}, "
                      f"{_bytes(done / seconds)}/s")
        if self._live:
            self._write("\r" + self._text + "\033[K")

    def __exit__(self, *_) -> None:
        if self._text:
            self._write("\n" if self._live else self._text + "\n")

    def _write(self, text: str) -> None:
        with _unless_broken():
            self._stream.write(text)
            self._stream.flush()


def _unless_broken():
    return contextlib.suppress(AttributeError, OSError, ValueError)  # of None, a broken pipe and a closed stream


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            break
        count /= 1000
    else:
        unit = "TB"
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
