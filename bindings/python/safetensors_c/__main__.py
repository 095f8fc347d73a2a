"""python -m safetensors_c PROGRAM [ARGUMENT...], or -m MODULE: runs it with this package in the place of safetensors.

SPDX-License-Identifier: Apache-2.0
"""
import runpy
import sys

from safetensors_c import patch


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments or arguments == ["-m"]:
        sys.exit("usage: python -m safetensors_c [-m] PROGRAM [ARGUMENT...]")
    patch()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


main()
