"""What the tests beside this folder share.

SPDX-License-Identifier: Apache-2.0
"""
import os
import sys

SKIP = 77


def skip(why):
    print("skipped:", why)
    sys.exit(SKIP)


def library_path():
    path = os.environ.get("ST_LIBRARY")
    if not path:
        skip("ST_LIBRARY does not say where the shared library is")
    return path


def need_reference():
    try:
        import numpy  # noqa: F401
        import safetensors
    except ImportError as missing:
        skip(f"the reference is not installed: {missing}")
    return safetensors
