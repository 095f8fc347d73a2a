"""python -m safetensors_c PROGRAM [ARGUMENT...], or -m MODULE: runs it with this package in place of safetensors.

SPDX-License-Identifier: Apache-2.0
"""
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from types import ModuleType

from safetensors_c import patch
from safetensors_c._open import absolute


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments or arguments == ["-m"]:
        sys.exit("usage: python -m safetensors_c [-m] PROGRAM [ARGUMENT...]")
    patch()
    # This module stays __main__ until the process ends, for threads and for functions that atexit calls. The public
    # functions of runpy put the previous __main__ back at the end of the program's code.
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__dict__["__builtins__"] = __builtins__
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy._run_module_as_main(arguments[1])  # as Python does for its option -m
        return
    sys.argv, program = arguments, arguments[0]
    safe_path = getattr(sys.flags, "safe_path", False)
    if not safe_path:
        del sys.path[0]  # the current directory, because of -m
    is_folder, path = os.path.isdir(program), os.path.realpath(program)
    program = absolute(program)
    if is_folder or program.endswith((".zip", ".pyz")) and os.path.exists(program):
        sys.path.insert(0, program)
        runpy._run_module_as_main("__main__", alter_argv=False)  # as Python does for directories and archives
        return
    if not safe_path:
        sys.path.insert(0, os.path.dirname(path))
    compiled = program.endswith(".pyc")
    loader = (SourcelessFileLoader if compiled else SourceFileLoader)("__main__", program)
    module.__file__, module.__loader__ = program, loader
    try:
        code = loader.get_code("__main__") if compiled else compile(loader.get_data(program), program, "exec")
    except OSError as error:  # as Python does
        print(f"{sys.executable}: can't open file {program!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        sys.exit(2)
    exec(code, module.__dict__)


main()
