"""Reading many tensors at once, with several threads and a report of the progress.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import threading
from contextlib import nullcontext
from ctypes import byref, c_int64, c_void_p
from itertools import repeat
from operator import index as as_integer

from . import _callbacks, _library
from ._library import call, quick, st


def read(file, destinations, threads: int | None = None, progress=None, device=None, stream: int = 0, parts=None,
         cache: int = _library.CACHE_AUTO, group=None) -> None:
    """Fills memory: destinations are the handle of a tensor, an address, and the size of the tensor, which is there.

    `progress` is called with the bytes that are read and those of the plan; what it raises ends the reading. With a
    `device` the addresses are in its memory, which is written to after the work that `stream` has been given; 0: at once.
    `parts`: what is read of each tensor, a Selection, whose size is then given, or None for all of it. `cache`: as st_cache.
    With a `group`, all its processes call this function, and read together.
    """
    if threads is not None and (threads := as_integer(threads)) < 1:
        raise ValueError(f"threads is {threads}, and must be at least 1")
    plan = c_void_p()
    try:
        call(quick.st_plan_new, file.handle, byref(plan))
        error = _library.new(_library.Error)
        add, at, reference = quick.st_plan_add, plan.value, byref(error)
        if device is not None:
            def add(plan, *arguments):
                return st.st_plan_add_device(plan, device.value, stream, *arguments)
        begin = end = step = None
        for (handle, address, size), part in zip(destinations, repeat(None) if parts is None else parts):
            if part is not None:
                kind = c_int64 * len(part.begin)
                begin, end, step = kind(*part.begin), kind(*part.end), kind(*part.step)
            elif begin is not None:
                begin = end = step = None
            if size and add(at, handle, begin, end, step, address, size, reference):
                raise _library.failure(error)
        _run(file, plan, threads or (0 if file.opener is None else file.opener.threads), cache, progress, group)
    finally:
        quick.st_plan_free(plan)


def _run(file, plan, threads: int, cache: int, progress, group) -> None:
    # Python handles a signal when the library calls it, in the main thread only. The other threads get no callback: a
    # daemon thread that is in one when the program ends aborts the program.
    slow = file.opener is not None and file.opener.slow
    if progress is None and slow and threading.current_thread() is threading.main_thread():
        progress = lambda done, total: None
    # The library takes no more than 1024, and ctypes the last 32 bits of a number.
    options = _library.new(_library.ReadOptions if group is None else _library.GroupReadOptions, threads=min(threads, 1024),
                           cache=cache)
    with (_callbacks.reporting(progress) if progress else nullcontext(options.progress) as report,
          nullcontext() if group is None else group.running(options, plan.value or 0)):
        options.progress = report
        file.call(st.st_plan_run, plan, byref(options))
