"""SafetensorError, and how a status of the library becomes the exception that programs expect.

Programs match texts: the beginning of a message is what the reference says of the same fault, and the library's own
line, which names the tensor and the numbers, follows it.

SPDX-License-Identifier: Apache-2.0
"""
import os

class SafetensorError(Exception):
    """What is wrong with a file, a tensor or a call.

    `status` is the name of the library's status ("ST_ERR_JSON") or None, `offset` the byte of the file at which the
    fault lies, or None.
    """

    __module__ = "safetensors_c"
    status: str | None = None
    offset: int | None = None


class UnknownDtype(SafetensorError, AttributeError, KeyError, TypeError):
    """A dtype that the framework or the format lacks. The reference raises any of these types, depending on the function."""

    __str__ = Exception.__str__  # KeyError's is in quotes


class TorchError(SafetensorError, IndexError, RuntimeError, TypeError, ValueError):
    """What torch refuses, such as an index. The reference raises torch's exception or its own, depending on the backend."""


def not_an_instance(argument: str, value, kind: str = "str") -> TypeError:
    """What the reference says of an argument of another type."""
    given = "'None'" if value is None else f"'{type(value).__name__}' object"
    return TypeError(f"argument '{argument}': {given} is not an instance of '{kind}'")


# The reference's words for a header that is refused, by status, and what of the library's message belongs into them.
_HEADER = {
    "ST_ERR_HEADER_SIZE": ("header too large", None),
    "ST_ERR_UTF8": ("invalid UTF-8 in header", None),
    "ST_ERR_JSON": ("invalid JSON in header", None),
    "ST_ERR_SCHEMA": ("invalid JSON in header", None),
    "ST_ERR_DUPLICATE": ("invalid JSON in header", None),
    "ST_ERR_DTYPE": ("invalid JSON in header: unknown variant", r"dtype '(.*?)' is unknown"),
    "ST_ERR_OFFSETS": ("invalid offset for tensor", r"tensor '(.*?)': "),
    "ST_ERR_OVERFLOW": ("overflow computing buffer size from shape and/or element type", None),
    "ST_ERR_MISALIGNED": ("The slice is slicing for subbytes dtypes, and the slice does not end up at a byte boundary,"
                          " this is invalid", None),
    "ST_ERR_TENSOR_SIZE": ("invalid shape, data type, or offset for tensor", None),
    "ST_ERR_COVERAGE": ("incomplete metadata, file not fully covered", None),
    "ST_ERR_FORMAT": ("invalid header", None),
}


def from_status(status: str, message: str, offset: int | None, os_error: int, context: str,
                size: int | None = None, path: bytes | None = None) -> Exception:
    """The exception for a failed call.

    `context` is "header", "bytes" (also a header, in memory), "write", or "" for what reads tensors. `size` is that of
    the file, if it is no path.
    """
    if os_error and context != "write" and status not in ("ST_ERR_MAP", "ST_ERR_DEVICE"):
        # On Windows the number is one of GetLastError(), from which Python makes errno and the kind of the exception.
        problem = OSError(os_error, message) if os.name != "nt" else OSError(None, message, None, os_error)
        if status == "ST_ERR_OPEN" and path is not None:  # like the reference, for whatever reason open() failed
            if isinstance(problem, FileNotFoundError):
                return FileNotFoundError(f"No such file or directory: {os.fsdecode(path)}")
            return FileNotFoundError(*problem.args) if os.name != "nt" else problem
        return problem
    if status == "ST_ERR_OPEN" and context == "header" and (path is not None or size is None):  # a directory, a server
        return OSError(message)
    if status == "ST_ERR_READ" and context != "write":  # a server: other files have the number of an error
        return OSError(message)
    if status == "ST_ERR_NO_MEMORY":
        return MemoryError(message)
    if size is None and path is not None and os.path.isfile(path):
        size = os.path.getsize(path)
    error = SafetensorError(_lead(status, message, context, size) + message)
    error.status, error.offset = status, offset
    return error


def _lead(status: str, message: str, context: str, size: int | None) -> str:
    if context == "write":
        return "Error while serializing: "
    said = _said(status, message, size) if context else None
    if said is None:
        return ""
    return f"Error while deserializing{' header' if context == 'header' else ''}: {said}: "


def _said(status: str, message: str, size: int | None) -> str | None:
    if size is not None and size < 8 and status in ("ST_ERR_TRUNCATED", "ST_ERR_FORMAT"):
        return "header too small"
    if status == "ST_ERR_TRUNCATED":
        return "invalid header length"
    said, pattern = _HEADER.get(status, (None, None))
    if pattern is None:
        return said
    import re  # takes longer to import than all of this package
    found = re.search(pattern, message)
    return f"{said} `{found[1]}`" if found else said
