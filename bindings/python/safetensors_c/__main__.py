"""python -m safetensors_c PROGRAM [ARGUMENT...], or -m MODULE: runs it with this package in place of safetensors.

SPDX-License-Identifier: Apache-2.0
"""
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType

from safetensors_c import patch
from safetensors_c._open import absolute


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments or arguments == ["-m"]:
        sys.exit("usage: python -m safetensors_c [-m] PROGRAM [ARGUMENT...]")
    patch()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv, program = arguments, arguments[0]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(program))  # was the current directory, because of -m
    if os.path.isdir(program) or program.endswith((".zip", ".pyz", ".pyc")):
        runpy.run_path(program, run_name="__main__")
        return
    program = absolute(program)
    # Unlike runpy's, this module stays __main__ until the process ends, for functions that atexit calls.
    module = ModuleType("__main__")
    module.__file__, module.__loader__ = program, SourceFileLoader("__main__", program)
    module.__dict__["__builtins__"] = __builtins__
    try:
        with open(program, "rb") as file:
            code = compile(file.read(), program, "exec")
    except OSError as error:  # as Python does
        print(f"{sys.executable}: can't open file {program!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        sys.exit(2)
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


main()
