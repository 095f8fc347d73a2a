"""Small safetensors files, byte by byte, and ways to run the command.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

COMMAND = os.environ["ST_COMMAND"]
READS_ZIP = os.environ.get("ST_ZIP", "1") != "0"
NOBODY = 65534


INTERFERE = os.environ.get("ST_INTERFERE", "")
needs_interference = unittest.skipUnless(INTERFERE, "interfere is not built here (sanitizers, or no glibc)")


def interfered(what):
    """Returns the environment for a disturbance of interfere.c."""
    return {**os.environ, "LD_PRELOAD": INTERFERE, "ST_INTERFERENCE": what}


def file_bytes(tensors, metadata=None, data=None):
    """tensors: (name, dtype, shape, bytes of data), in data order."""
    header, end = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, shape, size in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + (bytes(end) if data is None else data)


def run(*arguments, **options):
    options.setdefault("timeout", 60)
    if "stdout" not in options:
        options["capture_output"] = True
    return subprocess.run([COMMAND, *arguments], stdin=subprocess.DEVNULL, **options)


def open_terminal():
    """Returns both sides of a pseudoterminal, the controlling one first. Skips the test if the system has none."""
    try:
        return os.openpty()
    except OSError as error:
        raise unittest.SkipTest(f"no pseudoterminal: {error}")


def read_terminal(controller):
    """Returns all output to the other side of a pseudoterminal until it is closed. Closes this side."""
    written = b""
    while True:
        try:
            piece = os.read(controller, 65536)
        except OSError:  # on Linux: the other side is closed
            piece = b""
        if not piece:
            os.close(controller)
            return written
        written += piece


def run_as_nobody(*arguments):
    """Runs a copy of the command as another user, who may not enter the build directory. Needs root."""
    with tempfile.TemporaryDirectory(prefix="safetensors_nobody_") as folder:
        os.chmod(folder, 0o755)
        command = shutil.copy(COMMAND, folder)
        return subprocess.run([command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                              user=NOBODY, group=NOBODY, extra_groups=[])
