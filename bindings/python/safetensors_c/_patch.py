"""patch(): this package under the name `safetensors`, for programs that import that.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

NAME, OURS = "safetensors", "safetensors_c"
_RUST = NAME + "._safetensors_rust"  # the reference's module in Rust, which some programs import by name


class _Finder(MetaPathFinder, Loader):
    """Answers for `safetensors` and what is below it with the modules of this package, which stay single."""

    def find_spec(self, fullname: str, path=None, target=None):
        if fullname == NAME:
            return ModuleSpec(fullname, self, is_package=True)
        return ModuleSpec(fullname, self) if fullname.startswith(NAME + ".") else None

    def create_module(self, spec):
        return None

    def exec_module(self, module) -> None:
        name = module.__name__
        ours = OURS if name in (NAME, _RUST) else OURS + name[len(NAME):]
        try:
            sys.modules[name] = import_module(ours)  # what importlib then takes, in the place of the empty module
        except ModuleNotFoundError as error:
            if error.name == ours:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name) from None
            raise


def patch() -> None:
    """Makes `import safetensors` give this package, in this process, from now on.

    Call it before the program imports anything that imports safetensors: names that modules have taken from the
    reference by then stay the reference's. `python -m safetensors_c PROGRAM` calls it for you.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    for name in [name for name in sys.modules if name == NAME or name.startswith(NAME + ".")]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder())
    import_module(NAME)
