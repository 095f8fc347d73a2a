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
