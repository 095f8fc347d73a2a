"""What the library's calls of Python functions raise.

An exception cannot pass through the library: a callback keeps it, and it is raised again behind the call. One may also
come before the callback's first line, where none of its `try` reaches: the handler of a signal, such as Ctrl-C, runs at
the start of the next Python function, which is the callback. So does what PyThreadState_SetAsyncExc raises in any thread.
Of such an exception ctypes only tells sys.unraisablehook, and what the callback returns to the library is undefined.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from operator import attrgetter


class _Hook(threading.local):
    """While calls run, sys.unraisablehook. In a thread with a call, `take` appends to the list of that call.

    That is all in C: in a Python function the next exception of this kind could come before its first line, and the
    callback would count as having succeeded.
    """

    __call__ = property(attrgetter("take"))
    nested = False

    def take(self, unraisable) -> None:
        """For threads without a call: of the program, or of the library."""
        if _is_of_callback(unraisable) and "safetensors_c" in f"{unraisable.err_msg}{unraisable.object!r}":
            for raised in list(_running.values()):  # by which of them it was called is unknown
                raised.append(_exception(unraisable))
        else:
            self.forward(unraisable)

    def forward(self, unraisable) -> None:
        if self.nested:  # a hook that was set during a call, and calls the one before it
            sys.__unraisablehook__(unraisable)
            return
        self.nested = True
        try:
            _before(unraisable)
        finally:
            self.nested = False


def _is_of_callback(unraisable) -> bool:
    return "ctypes callback function" in (unraisable.err_msg or "")


def _exception(unraisable) -> BaseException:
    return unraisable.exc_type() if unraisable.exc_value is None else unraisable.exc_value


_hook = _Hook()
_before = sys.__unraisablehook__
_lock = threading.RLock()  # the handler of a signal may make a call too
_running: dict[int, list] = {}  # the lists of the calls, by their id


def _forget_threads() -> None:
    """In a forked process: another thread may have held the lock."""
    global _lock
    _lock = threading.RLock()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def _leave(key: int, outer) -> None:
    _hook.take = outer
    with _lock:
        _running.pop(key, None)
        if not _running and sys.unraisablehook is _hook:
            sys.unraisablehook = _before


@contextlib.contextmanager
def kept(raised: list):
    """Around a call of the library: adds to `raised` what ended a callback outside its `try`."""
    global _before
    taken: list = []
    outer, key = _hook.take, id(taken)
    try:
        with _lock:
            _running[key] = raised
            if sys.unraisablehook is not _hook:
                _before, sys.unraisablehook = sys.unraisablehook, _hook
        _hook.take = taken.append
        yield
    finally:
        try:
            _leave(key, outer)
        except BaseException:  # also here a handler of a signal may raise
            _leave(key, outer)
            raise
        for unraisable in taken:
            if _is_of_callback(unraisable):
                raised.append(_exception(unraisable))
            else:
                _hook.forward(unraisable)


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
    ours = {number: guarded(handler) for number, handler in before.items()}
    try:
        for number, handler in ours.items():
            signal.signal(number, handler)
        yield
    finally:
        try:
            for number, handler in before.items():
                if signal.getsignal(number) is ours[number]:  # else the program has installed another one meanwhile
                    signal.signal(number, handler)
        finally:
            ended = True  # A restored handler may have raised before the others were restored.
