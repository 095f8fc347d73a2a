"""Puts the self-contained C library into the wheel, which then serves every Python 3 of one platform.

SAFETENSORS_C_LIBRARY names an existing library. Without it CMake builds one, with the options in CMAKE_ARGS, from the
checkout around this directory or from the sources in the sdist. The sources of simdjson, fmt and xxHash are those in the
sdist or those that `./dev deps` has fetched. Without them CMake fetches the pinned releases; without a network it uses the
system's packages.

SAFETENSORS_C_BOM names a bill of materials, which the wheel or the sdist then contains. With SOURCE_DATE_EPOCH set, the
same library gives the same wheel.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.dist import Distribution

NAME = {"darwin": "libsafetensors.dylib", "win32": "safetensors.dll"}.get(sys.platform, "libsafetensors.so")
HERE = pathlib.Path(__file__).resolve().parent
IN_SDIST = HERE / "libsafetensors"
SOURCES = IN_SDIST if IN_SDIST.is_dir() else HERE.parents[1]
DEPENDENCIES = SOURCES / ".deps"
GIVEN = os.environ.get("SAFETENSORS_C_LIBRARY")
BOM = os.environ.get("SAFETENSORS_C_BOM")
PACKAGES = """Install them (Debian: libsimdjson-dev libfmt-dev libxxhash-dev), or set CMAKE_ARGS to local sources:
-DFETCHCONTENT_SOURCE_DIR_SIMDJSON=... -DFETCHCONTENT_SOURCE_DIR_FMT=... -DST_XXHASH_INCLUDE_DIR=..."""

# The sources of the library, in a checkout and in the sdist.
PARTS = ["CMakeLists.txt", "LICENSE", "safetensors.pc.in", "cmake", "capi", "include", "src", "packaging/notices.txt",
         ".deps/simdjson/singleheader/simdjson.cpp", ".deps/simdjson/singleheader/simdjson.h",
         ".deps/fmtlib/CMakeLists.txt", ".deps/fmtlib/LICENSE.rst", ".deps/fmtlib/README.rst", ".deps/fmtlib/ChangeLog.rst",
         ".deps/fmtlib/include", ".deps/fmtlib/src", ".deps/fmtlib/support/cmake", ".deps/xxhash/xxhash.h", ".deps/xxhash/LICENSE"]


def builder() -> str | None:
    return next(filter(shutil.which, ("ninja", "ninja-build", "make", "gmake")), None)


def build_tools() -> list[str]:
    """Returns the tools that pip installs for the build because the system lacks them."""
    if GIVEN or sys.platform == "win32":
        return []
    return ["cmake>=3.24"] * (not shutil.which("cmake")) + ["ninja"] * (not builder())


def require_tools() -> None:
    compilers = [os.environ["CXX"].split()[0]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    missing = [text for text, found in (
        ("CMake 3.24 (Debian: cmake)", shutil.which("cmake")),
        ("Ninja or make (Debian: ninja-build)", builder() or sys.platform == "win32"),
        ("a C++20 compiler (Debian: g++)", any(map(shutil.which, compilers)) or sys.platform == "win32"),
    ) if not found]
    if missing:
        sys.exit("safetensors-c: the C library cannot be built without " + ", ".join(missing) +
                 ".\nInstall it, or set SAFETENSORS_C_LIBRARY to a libsafetensors.so.")


def online() -> bool:
    try:
        urllib.request.urlopen("https://github.com", timeout=5).close()
        return True
    except OSError:
        return False


def dependency_options() -> list[str]:
    """Says where CMake finds simdjson, fmt and xxHash."""
    found = [option for option, place in (
        (f"-DFETCHCONTENT_SOURCE_DIR_SIMDJSON={DEPENDENCIES / 'simdjson'}", "simdjson/singleheader/simdjson.cpp"),
        (f"-DFETCHCONTENT_SOURCE_DIR_FMT={DEPENDENCIES / 'fmtlib'}", "fmtlib/CMakeLists.txt"),
        (f"-DST_XXHASH_INCLUDE_DIR={DEPENDENCIES / 'xxhash'}", "xxhash/xxhash.h"),
    ) if (DEPENDENCIES / place).exists()]
    simdjson = any("SIMDJSON=" in option for option in [*found, os.environ.get("CMAKE_ARGS", "")])
    if len(found) < 3 and not online():
        found.append("-DFETCHCONTENT_FULLY_DISCONNECTED=ON")
        if not simdjson:
            return [*found, "-DST_SELF_CONTAINED=OFF"]  # links the system's simdjson
    return [*found, "-DST_SELF_CONTAINED=ON", "-DST_STATIC_RUNTIME=ON"]


class BuildWithLibrary(build_py):
    def run(self):
        shutil.rmtree(pathlib.Path(self.build_lib, "safetensors_c"), ignore_errors=True)  # of an earlier version
        super().run()
        if not self.editable_mode:  # which finds a library by SAFETENSORS_C_LIBRARY
            library = pathlib.Path(GIVEN or self._built_library())  # one that is given may be of another system
            name = NAME if ".so" in library.suffixes else library.name
            shutil.copyfile(library, pathlib.Path(self.build_lib, "safetensors_c", name))
            for text in (SOURCES / "LICENSE", SOURCES / "packaging" / "notices.txt"):  # of what is compiled in
                if text.exists():
                    shutil.copy(text, pathlib.Path(self.build_lib, "safetensors_c"))

    def _built_library(self) -> pathlib.Path:
        if not (SOURCES / "capi" / "safetensors.map").exists():
            sys.exit("safetensors-c: the sources of the C library are missing: set SAFETENSORS_C_LIBRARY to a libsafetensors.so,"
                     " or install from a checkout or the sdist")
        require_tools()
        folder = pathlib.Path(self.get_finalized_command("build").build_temp, "libsafetensors").resolve()
        shutil.rmtree(folder, ignore_errors=True)  # may be of another checkout or generator
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DST_UNITY=ON", *dependency_options(),
                   *(f"-DST_BUILD_{part}=OFF" for part in ("TESTS", "CLI", "BENCH", "FUZZ"))]
        if sys.platform != "win32" and "ninja" in builder() and not os.environ.get("CMAKE_GENERATOR"):
            options.append("-GNinja")
        if sys.platform == "linux":
            options.append("-DCMAKE_SHARED_LINKER_FLAGS_RELEASE=-s")  # a wheel needs no table of local symbols
        command = ["cmake", "-S", SOURCES, "-B", folder, *options, *shlex.split(os.environ.get("CMAKE_ARGS", ""))]
        if subprocess.run(command).returncode:
            offline = "-DFETCHCONTENT_FULLY_DISCONNECTED=ON" in options
            sys.exit("safetensors-c: CMake could not configure the C library (see above)." +
                     (f"\nThere is no network, and simdjson, fmt or xxHash is missing. {PACKAGES}" if offline else ""))
        # --parallel without a number would start all compilers at once where the generator is make.
        build = ["cmake", "--build", folder, "--target", "safetensors", "--config", "Release"]
        if subprocess.run(build, env={"CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1), **os.environ}).returncode:
            sys.exit("safetensors-c: the C library could not be compiled (see above)")
        places = (folder / below / NAME for below in ("", "Release", "bin", "bin/Release"))
        return next(path for path in places if path.exists())


class SourcesWithLibrary(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for part in PARTS:
            source, target = SOURCES / part, pathlib.Path(base_dir, "libsafetensors", part)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, target)
        if BOM:
            shutil.copy(BOM, pathlib.Path(base_dir, "libsafetensors", "sources.spdx.json"))


class PlatformWheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def write_wheelfile(self, wheelfile_base, *arguments, **options):
        """Is called when all but RECORD is there. The umask, of this build and of the checkout, stays out of the wheel."""
        super().write_wheelfile(wheelfile_base, *arguments, **options)
        if BOM:
            bills = pathlib.Path(wheelfile_base, "sboms")  # PEP 770
            bills.mkdir()
            shutil.copy(BOM, bills / "libsafetensors.spdx.json")
        for path in pathlib.Path(self.bdist_dir).rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)

    def get_tag(self):
        platform = super().get_tag()[2]
        if platform.startswith("linux_") and not self.plat_name_supplied:
            platform = self._linux_tag(platform.removeprefix("linux_"))
        return "py3", "none", platform

    def _linux_tag(self, machine: str) -> str:
        """The oldest C library with which the library loads. Only a self-contained one has such a tag."""
        path = pathlib.Path(self.get_finalized_command("build_py").build_lib, "safetensors_c", NAME)
        library = path.read_bytes() if path.exists() else b""
        if not library or b"libstdc++.so" in library or b"libsimdjson.so" in library:
            return f"linux_{machine}"
        if b"libc.musl-" in library:
            return f"musllinux_1_2_{machine}"
        versions = [tuple(map(int, found)) for found in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", library)]
        return "manylinux_{}_{}_{}".format(*max(versions), machine) if versions else f"linux_{machine}"


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel, "sdist": SourcesWithLibrary},
      distclass=PlatformDistribution, setup_requires=build_tools())
