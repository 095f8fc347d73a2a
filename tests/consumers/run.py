"""Uses an installed libsafetensors in each way its users do.

usage: run.py PREFIX WORK BUILD     BUILD: the preset it was built with, dev or self-contained

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from languages import try_all

HERE = pathlib.Path(__file__).parent
PREFIX, WORK = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
SELF_CONTAINED = sys.argv[3] == "self-contained"
CC = os.environ.get("CC", "cc")


def run(*command, env=None):
    command = [str(part) for part in command]
    done = subprocess.run(command, env={**os.environ, **(env or {})}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def needed(binary):
    return set(re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", binary)))


def library_of(prefix):
    return next(prefix.glob("lib*/**/libsafetensors.so"))


def linked_shared(binary):
    assert "libsafetensors.so.0" in needed(binary), needed(binary)


def linked_static(binary):
    assert not any(name.startswith("libsafetensors") for name in needed(binary)), needed(binary)


def with_cmake(project, name, *arguments, prefix=PREFIX):
    build = WORK / name
    run("cmake", "-S", HERE / project, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", *arguments)
    run("cmake", "--build", build)
    run(build / "consumer")
    return build / "consumer"


def with_pkg_config(name, *arguments, prefix=PREFIX, link=()):
    pkg = {"PKG_CONFIG_PATH": str(library_of(PREFIX).parent.relative_to(PREFIX) / "pkgconfig")}
    pkg["PKG_CONFIG_PATH"] = str(prefix / pkg["PKG_CONFIG_PATH"])
    cflags = shlex.split(run("pkg-config", "--cflags", *arguments, "safetensors", env=pkg))
    libs = shlex.split(run("pkg-config", "--libs", *arguments, "safetensors", env=pkg))
    binary = WORK / name
    run(CC, *cflags, HERE / "c/main.c", "-o", binary, *link, *libs)
    run(binary, env={"LD_LIBRARY_PATH": str(prefix / library_of(PREFIX).parent.relative_to(PREFIX))})
    return binary


def copy_of_prefix(name):
    copy = WORK / name
    shutil.copytree(PREFIX, copy, symlinks=True)
    return copy


# ---- the ways ---------------------------------------------------------------------------------------------------------

def cmake_c_shared():
    linked_shared(with_cmake("c", "cmake-c-shared"))


def cmake_c_shared_without_simdjson():
    linked_shared(with_cmake("c", "cmake-c-alone", "-DCMAKE_DISABLE_FIND_PACKAGE_simdjson=ON"))


def cmake_c_static():
    linked_static(with_cmake("c", "cmake-c-static", "-DBUILD_SHARED_LIBS=OFF"))


def cmake_cpp_shared():
    linked_shared(with_cmake("cpp", "cmake-cpp-shared"))


def cmake_cpp_static():
    linked_static(with_cmake("cpp", "cmake-cpp-static", "-DBUILD_SHARED_LIBS=OFF"))


def pkg_config_shared():
    linked_shared(with_pkg_config("pkg-shared"))


def pkg_config_static():
    prefix = copy_of_prefix("static-only")
    for shared in library_of(prefix).parent.glob("libsafetensors.so*"):
        shared.unlink()
    link = ["-static"] if SELF_CONTAINED else []  # else simdjson would have to be there as an archive
    linked_static(with_pkg_config("pkg-static", "--static", prefix=prefix, link=link))


def packages_of_one_library():
    only = copy_of_prefix("archive-only")
    for file in [*library_of(only).parent.glob("libsafetensors.so*"), *only.rglob("safetensorsSharedTargets*")]:
        file.unlink()
    linked_static(with_cmake("c", "cmake-archive-only", prefix=only))
    only = copy_of_prefix("shared-only")
    for file in [*only.rglob("libsafetensors.a"), *only.rglob("safetensorsStaticTargets*")]:
        file.unlink()
    linked_shared(with_cmake("c", "cmake-shared-only", prefix=only))


def description():
    described = json.loads(described_api(PREFIX).read_text(encoding="utf-8"))
    exported = set(re.findall(r" T (st_\w+)", run("nm", "-D", "--defined-only", library_of(PREFIX))))
    assert {function["name"] for function in described["functions"]} == exported, exported
    printed = run("pkg-config", "--modversion", "safetensors", env={"PKG_CONFIG_PATH": str(library_of(PREFIX).parent / "pkgconfig")})
    assert described["version"] == printed.strip(), printed


def described_api(prefix):
    """safetensors.json, by the path that pkg-config says."""
    folder = prefix / library_of(PREFIX).parent.relative_to(PREFIX) / "pkgconfig"
    return pathlib.Path(run("pkg-config", "--variable=json", "safetensors", env={"PKG_CONFIG_PATH": str(folder)}).rstrip("\n").replace("\\ ", " "))


def moved_prefix():
    first = copy_of_prefix("moved-from")
    moved = first.rename(WORK / "moved to")  # with a space, as in "Program Files"
    assert described_api(moved).resolve() == moved / "share/safetensors/safetensors.json", described_api(moved)
    linked_shared(with_cmake("c", "cmake-c-moved", prefix=moved))
    if not SELF_CONTAINED:  # that build is installed without the command
        run(moved / "bin/safetensors", "--version")
    linked_shared(with_pkg_config("pkg-moved", prefix=moved))
    for text in [*moved.rglob("*.cmake"), *moved.rglob("*.pc")]:
        assert str(PREFIX) not in text.read_text(), f"{text.name} names the prefix that it was installed to"


def dlopen_and_dlclose():
    run(sys.executable, HERE / "loaded.py", library_of(PREFIX))


def exceptions_of_callbacks():
    program = WORK / "exceptions"
    run(os.environ.get("CXX", "c++"), "-std=c++20", f"-I{PREFIX}/include", HERE.parent / "capi/exceptions.cpp",
        "-o", program, library_of(PREFIX))
    run(program, env={"LD_LIBRARY_PATH": str(library_of(PREFIX).parent)})


def what_it_loads():
    runtime = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    beside = {name.split(".so")[0] for name in needed(library_of(PREFIX)) - runtime}
    assert beside <= (set() if SELF_CONTAINED else {"libsimdjson", "libstdc++"}), beside
    soname = run("readelf", "-d", library_of(PREFIX))
    assert "[libsafetensors.so.0]" in soname and "RUNPATH" not in soname and "RPATH" not in soname, soname


def other_version_is_refused():
    project = WORK / "other-version"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(p LANGUAGES C)\n"
        "find_package(safetensors 99 QUIET)\nif(safetensors_FOUND)\nmessage(FATAL_ERROR found)\nendif()\n")
    run("cmake", "-S", project, "-B", project / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={PREFIX}")


WAYS = {way.__name__: way for way in [
    cmake_c_shared, cmake_c_shared_without_simdjson, cmake_c_static, cmake_cpp_shared, cmake_cpp_static, pkg_config_shared,
    pkg_config_static, packages_of_one_library, description, moved_prefix, dlopen_and_dlclose, exceptions_of_callbacks, what_it_loads,
    other_version_is_refused]}

shutil.rmtree(WORK, ignore_errors=True)
WORK.mkdir(parents=True)
print(f"{sys.argv[3]} build:", flush=True)
sys.exit(try_all(WAYS, lambda way: WAYS[way]() or "", os.cpu_count()))
