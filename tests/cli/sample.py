"""Small safetensors files, spelled byte by byte, for the tests of the command.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess

COMMAND = os.environ["ST_COMMAND"]


def file_bytes(tensors, metadata=None, data=None):
    """tensors: (name, dtype, shape, bytes of data), in the order of the data."""
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
    return subprocess.run([COMMAND, *arguments], stdin=subprocess.DEVNULL, capture_output=True, **options)
