"""Puts the self-contained C library into the wheel, which then serves every Python 3 of one platform.

SAFETENSORS_C_LIBRARY names a library that is built; without it CMake builds one from the checkout that this folder is
in, with the options in CMAKE_ARGS. simdjson's sources are those that `./dev deps` has fetched; without them CMake fetches
the pinned release.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

NAME = {"darwin": "libsafetensors.dylib", "win32": "safetensors.dll"}.get(sys.platform, "libsafetensors.so")
CHECKOUT = pathlib.Path(__file__).resolve().parents[2]


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:  # which finds a library by SAFETENSORS_C_LIBRARY
            library = pathlib.Path(self._library())  # one that is given may be of another system
            name = NAME if ".so" in library.suffixes else library.name
            shutil.copyfile(library, pathlib.Path(self.build_lib, "safetensors_c", name))
            for text in (CHECKOUT / "LICENSE", CHECKOUT / "packaging" / "notices.txt"):  # of what is compiled in
                if text.exists():
                    shutil.copy(text, pathlib.Path(self.build_lib, "safetensors_c"))

    def _library(self):
        given = os.environ.get("SAFETENSORS_C_LIBRARY")
        if given:
            return given
        if not (CHECKOUT / "capi" / "safetensors.map").exists():
            sys.exit("setup.py: no checkout of libsafetensors is around this folder, from which the library could be built:"
                     " set SAFETENSORS_C_LIBRARY to a libsafetensors.so")
        folder = pathlib.Path(self.get_finalized_command("build").build_temp, "libsafetensors").resolve()
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DST_SELF_CONTAINED=ON", "-DST_STATIC_RUNTIME=ON",
                   *(f"-DST_BUILD_{part}=OFF" for part in ("TESTS", "CLI", "BENCH", "FUZZ"))]
        simdjson = CHECKOUT / ".deps" / "simdjson"
        if (simdjson / "singleheader").is_dir():
            options.append(f"-DFETCHCONTENT_SOURCE_DIR_SIMDJSON={simdjson}")
        subprocess.run(["cmake", "-S", CHECKOUT, "-B", folder, *options, *shlex.split(os.environ.get("CMAKE_ARGS", ""))],
                       check=True)
        # --parallel without a number would start all compilers at once where the generator is make.
        subprocess.run(["cmake", "--build", folder, "--target", "safetensors", "--config", "Release"], check=True,
                       env={"CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1), **os.environ})
        places = (folder / below / NAME for below in ("", "Release", "bin", "bin/Release"))
        return next(path for path in places if path.exists())


class PlatformWheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel}, distclass=PlatformDistribution)
