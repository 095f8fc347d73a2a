"""What the library's calls of Python functions raise.

An exception cannot pass through the library: a callback keeps it, and it is raised again behind the call. One may also
come before the callback's first line, where none of its `try` reaches: the handler of a signal, such as Ctrl-C, runs at
the start of the next Python function, which is the callback. Of such an exception ctypes only tells sys.unraisablehook,
and what the callback returns to the library is undefined.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import contextlib
import signal
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

    def report(_, done: int, total: int) -> int:
        try:
            if not raised:
                progress(done, total)
        except BaseException as problem:
            raised.append(problem)
        return 1 if raised else 0  # 1 ends it

    with raising() as raised, kept(raised):
        yield PROGRESS(report)


@contextlib.contextmanager
def raising():
    """A context with a list for what callbacks raise. At its end, raises the first exception of the list."""
    raised: list[BaseException] = []
    try:
        yield raised
    finally:
        if raised:
            try:
                raise raised[0]
            finally:
                raised.clear()  # its traceback holds this frame


@contextlib.contextmanager
def uninterrupted(raised: list, stop):
    """A context in which no handler of a signal raises, for a call of the library whose callbacks must not fail. The
    exception is added to `raised`, and `stop()` is called to end the call early."""
    if threading.current_thread() is not threading.main_thread():  # the only one that runs handlers of signals
        yield
        return
    ended = False

    def guarded(handler):
        def handle(number, frame) -> None:
            try:
                handler(number, frame)
            except BaseException as problem:
                if ended:
                    raise
                raised.append(problem)
                stop()
        return handle

    before = {number: handler for number in signal.valid_signals() if callable(handler := signal.getsignal(number))}
    try:
        for number, handler in before.items():
            signal.signal(number, guarded(handler))
        yield
    finally:
        try:
            for number, handler in before.items():
                signal.signal(number, handler)
        finally:
            ended = True  # A restored handler may have raised before the others were restored.
