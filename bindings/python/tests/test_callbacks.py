"""Python functions that the library calls, and exceptions that come at bad times.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import ctypes
import gc
import io
import signal
import sys
import threading
import weakref

import numpy as np
import pytest

from safetensors_c import _callbacks, _source, safe_open
from safetensors_c import numpy as mine


class Alarm(BaseException):
    """What the handler of a signal raises, like KeyboardInterrupt."""


@pytest.fixture
def alarms():
    """Raises Alarm after a number of seconds, and counts how often."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("needs timers")
    raised = []

    def handle(*_):
        raised.append(True)
        raise Alarm

    @contextlib.contextmanager
    def after(seconds):
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    before = signal.signal(signal.SIGALRM, handle)
    yield after, raised
    signal.signal(signal.SIGALRM, before)


class Reading:
    def __init__(self, content):
        self._file = io.BytesIO(content)

    def seek(self, *arguments):
        return self._file.seek(*arguments)

    def read(self, count):
        return self._file.read(count)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_signal_before_a_read_begins_neither_passes_for_data_nor_is_lost(alarms):
    after, raised = alarms
    files = [safe_open(Reading(mine.save({"a": np.full(1 << 16, value, np.uint8)})), "np") for value in range(1, 5)]
    caught = 0
    for i in range(600):
        try:
            with after(1e-6 * (i % 60 + 1)):
                array = files[i % 4].get_tensor("a")
            assert (array == i % 4 + 1).all()
        except Alarm:
            caught += 1
    assert caught == len(raised)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_signal_before_a_progress_function_begins_ends_the_load(alarms, tmp_path):
    after, raised = alarms
    mine.save_file({"a": np.ones(1 << 18)}, tmp_path / "m")
    mine.load_file(tmp_path / "m", progress=lambda done, total: None)  # imports what it needs, which must not be disturbed
    caught = 0
    for i in range(50):
        try:
            with after(2e-5 * (i % 30 + 1)):
                mine.load_file(tmp_path / "m", progress=lambda done, total: None, threads=1)
        except Alarm:
            caught += 1
    assert caught == len(raised)


class Stop(Exception):
    """What PyThreadState_SetAsyncExc raises at the first line of a callback."""


@contextlib.contextmanager
def ignored():
    """A context that collects what sys.unraisablehook is told."""
    told, before = [], sys.unraisablehook
    try:
        sys.unraisablehook = lambda unraisable: told.append(unraisable.exc_value)
        yield told
    finally:
        sys.unraisablehook = before


def fail(*_):
    raise Stop


class Failing:
    def __del__(self):
        raise OSError("a finalizer")


def test_what_ends_a_callback_is_kept_in_every_thread():
    callback, raised = ctypes.CFUNCTYPE(None)(fail), []

    def run():
        outer, inner = [], []
        with _callbacks.kept(outer):
            with _callbacks.kept(inner):
                callback()
            Failing()
            callback()
            callback()
        raised.extend((outer, inner))

    with ignored() as told:
        before = sys.unraisablehook
        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sys.unraisablehook is before
        callback()
    assert [list(map(type, each)) for each in raised] == [[Stop, Stop], [Stop]] * 3
    assert list(map(type, told)) == [OSError] * 3 + [Stop]


def test_read_that_ends_before_its_first_line_is_an_error_in_every_thread(monkeypatch):
    monkeypatch.setattr(_source._Reader, "copy", fail)
    errors = []

    def run():
        try:
            safe_open(Reading(mine.save({"a": np.zeros(1)})), "np")
        except Exception as error:
            errors.append(error)

    with ignored() as told:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert Stop in (type(errors[0]), type(errors[0].__cause__)) and not told


def test_what_ends_a_callback_in_a_thread_of_the_library_ends_every_call():
    class Source:
        """Stands for a reader of this package."""
        __module__ = "safetensors_c._source"

        def copy(self):
            raise Stop

    callback, raised = ctypes.CFUNCTYPE(None)(Source().copy), []
    with ignored() as told, _callbacks.kept(raised):
        thread = threading.Thread(target=callback)
        thread.start()
        thread.join()
    assert list(map(type, raised)) == [Stop] and not told


def test_hooks_that_call_each_other_end():
    with ignored() as told, _callbacks.kept([]):
        ours = sys.unraisablehook
        sys.unraisablehook = lambda unraisable: (told.append(unraisable.exc_value), ours(unraisable))
        with _callbacks.kept([]):
            Failing()
    assert OSError in map(type, told)


@pytest.mark.parametrize("problem", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_is_no_error_of_a_file(problem):
    class Interrupted(Reading):
        def read(self, count):
            raise problem("now")
    with pytest.raises(problem, match="now"):
        safe_open(Interrupted(mine.save({"a": np.zeros(1)})), "np")


def test_file_object_is_read_on_the_thread_that_asks():
    threads = set()

    class Watched(Reading):
        def read(self, count):
            threads.add(threading.get_ident())
            return super().read(count)
    arrays = {f"t{n}": np.zeros(1 << 17) for n in range(40)}
    safe_open(Watched(mine.save(arrays)), "np").get_tensors()
    assert threads == {threading.get_ident()}


def test_cause_of_an_earlier_error_is_not_that_of_a_later_one(path):
    class Failing(Reading):
        fails = False

        def read(self, count):
            if self.fails:
                raise OSError("the cable was pulled")
            return super().read(count)
    source = Failing(mine.save({"a": np.zeros(8, np.uint8)}))
    opened = safe_open(source, "np")
    source.fails = True
    with pytest.raises(Exception) as error:
        opened.get_tensor("a")
    assert str(error.value.__cause__) == "the cable was pulled"
    source.fails = False
    with pytest.raises(Exception) as error:  # any error of the library will do
        opened._file.call(__import__("safetensors_c._library")._library.st.st_tensor_read, None, None, 0)
    assert error.value.status == "ST_ERR_ARGUMENT" and error.value.__cause__ is None


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_file_object_is_given_back_at_once(no_collector):
    source = Reading(mine.save({"a": np.zeros(8)}))
    there = weakref.ref(source)
    opened = safe_open(source, "np")
    opened.get_tensors()
    del source, opened
    assert there() is None


def test_what_a_progress_function_raised_holds_nothing(no_collector, path):
    mine.save_file({"a": np.zeros(8)}, path)

    class Stop(Exception):
        pass

    def stop(done, total):
        raise Stop
    opened = safe_open(path, "np")
    there = weakref.ref(opened._file)
    try:
        opened.get_tensors(progress=stop)
    except Stop:
        pass
    del opened
    assert there() is None


class Generous(Reading):
    """Reads more than it is asked for."""

    def read(self, count):
        return self._file.read(count) + bytes(1 << 16)


def test_more_bytes_than_were_asked_for_are_not_copied():
    with pytest.raises(Exception) as error:
        safe_open(Generous(mine.save({"a": np.arange(4)})), "np")
    assert "where" in str(error.value.__cause__) and isinstance(error.value.__cause__, OSError)


class Silent(Reading):
    """Whose seek returns nothing, as that of some objects does, so that only tell knows the size."""

    def seek(self, *arguments):
        self._file.seek(*arguments)

    def tell(self):
        return self._file.tell()


def test_seek_need_not_return_the_position():
    with safe_open(Silent(mine.save({"a": np.arange(4)})), "np") as file:
        assert file.get_tensor("a").tolist() == [0, 1, 2, 3]
