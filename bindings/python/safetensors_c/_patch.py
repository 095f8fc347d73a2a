"""patch(): this package under the name `safetensors`, for programs that import `safetensors`.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec

NAME, OURS = "safetensors", "safetensors_c"
# A directory with a package `safetensors` that calls patch(). Child processes find it before the reference.
_CHILDREN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_children")


class _Finder(MetaPathFinder, Loader):
    """Finds the modules of this package for `safetensors` and its submodules, without loading them twice."""

    def find_spec(self, fullname: str, path=None, target=None):
        if fullname == NAME:
            return ModuleSpec(fullname, self, is_package=True)
        if fullname.startswith(NAME + ".") and find_spec(OURS + fullname[len(NAME):]):
            return ModuleSpec(fullname, self)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module) -> None:
        # importlib takes it instead of the empty module
        sys.modules[module.__name__] = import_module(OURS + module.__name__[len(NAME):])


def patch() -> None:
    """Makes `import safetensors` return this package from now on, in this process and in child processes.

    Call it before the first import of a module that imports safetensors: names that modules imported from the
    reference earlier stay the reference's. `python -m safetensors_c PROGRAM` calls it for you.

    Child processes are reached through sys.path, which multiprocessing passes on, and through the environment variable
    PYTHONPATH.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    for name in [name for name in sys.modules if name == NAME or name.startswith(NAME + ".")]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder())
    import_module(NAME)
    if _CHILDREN not in sys.path:  # the first entry is the program's directory, except in the safe mode of Python 3.11
        sys.path.insert(0 if getattr(sys.flags, "safe_path", False) else 1, _CHILDREN)
    paths = os.environ.get("PYTHONPATH", "")
    if _CHILDREN not in paths.split(os.pathsep):  # an empty entry is the current directory
        os.environ["PYTHONPATH"] = _CHILDREN + os.pathsep + paths if paths else _CHILDREN
