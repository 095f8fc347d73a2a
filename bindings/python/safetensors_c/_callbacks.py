"""What the library's calls of Python functions raise.

An exception cannot pass through the library: a callback keeps it, and it is raised again behind the call. One may also
come before the callback's first line, where none of its `try` reaches: the handler of a signal, such as Ctrl-C, runs at
the start of the next Python function, which is the callback. Of such an exception ctypes only tells sys.unraisablehook,
and what the callback returns to the library is undefined.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import contextlib
import sys
import threading


@contextlib.contextmanager
def kept(raised: list):
    """Around a call of the library: adds to `raised` what came before the first line of a callback in this thread."""
    if threading.current_thread() is not threading.main_thread():  # the only one that runs handlers of signals
        yield
        return
    main, before = threading.get_ident(), sys.unraisablehook

    def hook(unraisable) -> None:
        if threading.get_ident() == main and "ctypes callback function" in (unraisable.err_msg or ""):
            raised.append(unraisable.exc_value)
        else:
            before(unraisable)

    try:
        sys.unraisablehook = hook
        yield
    finally:
        sys.unraisablehook = before


@contextlib.contextmanager
def reporting(progress):
    """Around a call of the library that reports its progress: gives what is to be set as st_read_options.progress, or as
    that of st_write_options. It calls `progress` with the bytes that are done and all bytes. What that raises ends the
    library's work, and is raised again behind the call."""
    from ._library import PROGRESS
    raised: list[BaseException] = []

    def report(_, done: int, total: int) -> int:
        try:
            if not raised:
                progress(done, total)
        except BaseException as problem:
            raised.append(problem)
        return 1 if raised else 0  # 1 ends it

    try:
        with kept(raised):
            yield PROGRESS(report)
    finally:
        if raised:
            try:
                raise raised[0]
            finally:
                raised.clear()  # its traceback holds this frame
