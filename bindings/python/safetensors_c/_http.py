"""Checkpoints on web servers. The first URL loads libsafetensors-http.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from ctypes import CDLL, POINTER, Structure, byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p, cast
from dataclasses import dataclass, field
from functools import lru_cache

from . import _library
from ._errors import not_an_instance
from ._library import call, st
from ._source import Opener

_SYSTEM_NAME = "libsafetensors-http.0.dylib" if sys.platform == "darwin" else "libsafetensors-http.so.0"
_PLAIN, _PRIVATE = 1, 2


@dataclass(frozen=True)
class HttpOptions:
    """How `safe_open` reads from web servers. 0 and None are the defaults of the library (docs/http.md).

    Attributes:
        headers: of each request to the origin of the URL: a dictionary, or lines such as "Authorization: Bearer ...".
            They are not sent to other servers after a redirect. None: for hf:// the token in HF_TOKEN, if that is set.
        plain: allow http:// as well as https://.
        private: allow addresses that are not public, such as 127.0.0.1 and those of a private network.
        ca_file: a file with the only trusted certificate authorities, in PEM. None: the system's.
        proxy: the URL of a proxy. The variables http_proxy and so on are ignored.
        connections: requests at the same time. 0: 16.
        redirects: the limit of redirects in a row. 0: 5.
        tries: requests for one range if the server is busy or the connection fails. 0: 5.
        stall_ms: milliseconds without a byte after which a request has failed. 0: 30,000.
        first_bytes: bytes of the first request for each file. 0: 131,072.
        gap_bytes: the longest gap between two ranges of a slice that one request also fetches, and drops. 0: 131,072.
            1: practically none, which is slow for slices with many short rows.
    """

    __module__ = "safetensors_c"

    headers: Mapping[str, str] | Sequence[str] | None = field(default=None, repr=False)
    plain: bool = False
    private: bool = False
    ca_file: str | os.PathLike[str] | None = None
    proxy: str | None = field(default=None, repr=False)
    connections: int = 0
    redirects: int = 0
    tries: int = 0
    stall_ms: int = 0
    first_bytes: int = 0
    gap_bytes: int = 0

    def __post_init__(self) -> None:
        self._lines()
        for name, bits in (("connections", 32), ("redirects", 32), ("tries", 32), ("stall_ms", 32), ("first_bytes", 64),
                           ("gap_bytes", 64)):
            value = getattr(self, name)
            if not isinstance(value, int):
                raise not_an_instance(name, value, "int")
            if value < 0 or value >> bits:
                raise ValueError(f"{name} is {value}, expected 0 to 2**{bits} - 1")
        if self.proxy is not None:
            _text("proxy", self.proxy)

    def _lines(self) -> list[bytes]:
        # No message contains a header: it may be a secret.
        given = self.headers
        if given is None:
            return []
        if isinstance(given, Mapping):
            return [_text("headers", name) + b": " + _text("headers", value) for name, value in given.items()]
        if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
            raise TypeError(f"argument 'headers': expected a dict, or a list of lines, not '{type(given).__name__}'")
        return [_text("headers", line) for line in given]


def _text(argument: str, given) -> bytes:
    if not isinstance(given, str):
        raise not_an_instance(argument, given)
    if "\0" in given:
        raise ValueError(f"{argument}: embedded null character")
    return given.encode()


class Url(Opener):
    """A checkpoint on a web server."""

    slow = True

    def __init__(self, text: str, http: HttpOptions | None):
        if http is not None and not isinstance(http, HttpOptions):
            raise not_an_instance("http", http, "HttpOptions")
        self._text, self._http = text, http or HttpOptions()

    def open(self, options, out: c_void_p) -> None:
        http = self._http
        lines = http._lines()
        token = os.environ.get("HF_TOKEN", "").strip()
        if http.headers is None and token and self._text[:5].lower() == "hf://":
            lines = [b"Authorization: Bearer " + _text("HF_TOKEN", token)]
        given = _library.new(
            _Options, flags=_PLAIN * bool(http.plain) | _PRIVATE * bool(http.private),
            headers=(c_char_p * len(lines))(*lines), header_count=len(lines),
            ca_file=None if http.ca_file is None else _library.path_of(http.ca_file),
            proxy=None if http.proxy is None else http.proxy.encode(), connections=http.connections,
            redirects=http.redirects, tries=http.tries, stall_ms=http.stall_ms, first_bytes=http.first_bytes,
            gap_bytes=http.gap_bytes)
        call(_loaded().st_open_url, _text("filename", self._text), byref(given), byref(options), byref(out),
             context="header")


def check_pickled(url: str, http: HttpOptions | None) -> None:
    """A pickle may be stored or sent: it must not contain a secret that the program did not put there itself."""
    secret = ("a query" if "?" in url else "headers" if http is not None and http.headers
              else "a proxy" if http is not None and http.proxy else None)
    if secret:
        raise TypeError(f"cannot pickle 'safe_open' object: it was opened with {secret}, which may contain a secret; open the "
                        "URL again instead")


class _Options(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("headers", POINTER(c_char_p)), ("header_count", c_size_t),
                ("ca_file", c_char_p), ("proxy", c_char_p), ("connections", c_uint32), ("redirects", c_uint32),
                ("tries", c_uint32), ("stall_ms", c_uint32), ("first_bytes", c_uint64), ("gap_bytes", c_uint64)]


def _find() -> str:
    """The library that SAFETENSORS_C_HTTP_LIBRARY names, else the one in the directory of libsafetensors, else the system's."""
    named = os.environ.get("SAFETENSORS_C_HTTP_LIBRARY")
    if named:
        return named
    directory = os.path.dirname(_library.path)
    beside = os.path.join(directory, _SYSTEM_NAME)
    return beside if directory and os.path.exists(beside) else _SYSTEM_NAME


@lru_cache(maxsize=None)
def _loaded():
    if sys.platform == "win32":
        raise ImportError("URLs need libsafetensors-http, which does not exist for Windows")
    if not _library.HAS_STORES:
        raise ImportError(f"URLs need libsafetensors 0.3; {_library.path} is older")
    path = _find()
    try:
        library = CDLL(path)
        library.st_open_url.restype = c_int32
        library.st_open_url.argtypes = (c_char_p, c_void_p, c_void_p, c_void_p, c_void_p)
        function = library.st_open_store  # of the libsafetensors that it uses
    except (OSError, AttributeError) as problem:
        raise ImportError(
            f"URLs need libsafetensors-http, and {path} cannot be used: {problem}. Build and install it with "
            "-DST_BUILD_HTTP=ON, or set SAFETENSORS_C_HTTP_LIBRARY to its path") from problem
    if cast(function, c_void_p).value != cast(st.st_open_store, c_void_p).value:
        raise ImportError(f"{path} uses another libsafetensors than this package, which uses {_library.path}: set "
                          "SAFETENSORS_C_LIBRARY to the one that it uses")
    return library
