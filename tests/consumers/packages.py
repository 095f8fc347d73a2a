"""Gets the library through package managers, as the files in packaging/ tell them to, and runs a C program with it.

usage: packages.py PREFIX WORK [NAME...]     PREFIX: where the library is installed

All but the first build the library, which takes a minute each where ccache does not have it.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import pathlib
import re
import shutil
import sys

from languages import FETCHED, HERE, Place, Skip, make_files, need, run, try_all, version

CHECKOUT = HERE.parent.parent
PACKAGING = CHECKOUT / "packaging"
WITH_CCACHE = {f"CMAKE_{language}_COMPILER_LAUNCHER": "ccache" for language in ["C", "CXX"] if shutil.which("ccache")}


def with_meson(place, **env):
    meson = need("meson", "meson")
    project = place.work / "consumers/meson"
    shutil.copytree(HERE / "meson", project)
    shutil.copytree(HERE / "c", place.work / "consumers/c")
    (project / "subprojects").mkdir()
    shutil.copy(PACKAGING / "meson/safetensors.wrap", project / "subprojects")
    (project / "subprojects/safetensors").symlink_to(CHECKOUT)
    env = {**place.env, **WITH_CCACHE, **env}
    said = run([meson, "setup", "--buildtype=plain", place.work / "build", project], env=env)
    run(["ninja", "-C", place.work / "build"], env=env)
    run([place.work / "build/model"], cwd=place.work, env=env)
    return version(meson, "--version"), said


def meson_pkg_config(place):
    found, said = with_meson(place, PKG_CONFIG_PATH=str(place.library.parent / "pkgconfig"))
    assert "Run-time dependency safetensors found: YES" in said, said
    return found


def meson_wrap(place):
    found, said = with_meson(place, LD_LIBRARY_PATH="", PKG_CONFIG_LIBDIR=str(place.work))
    assert re.search(r"safetensors\s*: YES", said), said
    return found


def conan(place):
    program = next((path for path in [FETCHED / "py/bin/conan", shutil.which("conan")] if path and os.path.exists(path)), None)
    if program is None:
        raise Skip("no conan; PyPI has it, and ./dev deps fetches it")
    simdjson = os.environ.get("FETCHCONTENT_SOURCE_DIR_SIMDJSON", CHECKOUT / ".deps/simdjson")
    env = {**place.env, **WITH_CCACHE, "CONAN_HOME": str(place.work / "home"), "LD_LIBRARY_PATH": ""}
    run([program, "profile", "detect"], env=env)
    for shared in ["True", "False"]:
        run([program, "create", PACKAGING / "conan", "--no-remote", "-s", "compiler.cppstd=20", "-s", "build_type=Debug",
             "-o", f"libsafetensors/*:shared={shared}", "-c", f"user.libsafetensors:simdjson={simdjson}",
             "-c", f"tools.cmake.cmake_layout:test_folder={place.work / 'test'}"], env=env)
    return version(program, "--version")


def vcpkg_port(place):
    """Run by CMake alone: there is no vcpkg in Debian."""
    port = PACKAGING / "vcpkg"
    said = json.loads((port / "vcpkg.json").read_text())["version"]
    header = (CHECKOUT / "include/safetensors/safetensors.h").read_text()
    is_version = ".".join(re.findall(r"define ST_VERSION_(?:MAJOR|MINOR|PATCH) +(\d+)", header))
    assert said == is_version, f"vcpkg.json says version {said}, the header {is_version}"
    for linkage, library in [("dynamic", "libsafetensors.so"), ("static", "libsafetensors.a")]:
        packages = place.work / linkage
        run(["cmake", f"-DPORT_DIR={port}", f"-DBUILD_DIR={place.work / 'port'}", f"-DCURRENT_PACKAGES_DIR={packages}",
             f"-DVCPKG_LIBRARY_LINKAGE={linkage}", "-P", HERE / "vcpkg.cmake"], env={**place.env, **WITH_CCACHE})
        libraries = sorted({path.name.partition(".so.")[0].removesuffix(".so") for path in packages.glob("lib/lib*")})
        assert libraries == [library.removesuffix(".so")], f"a {linkage} package has {libraries}"
        build = place.work / f"consumer-{linkage}"
        run(["cmake", "-S", HERE / "c", "-B", build, f"-DCMAKE_PREFIX_PATH={packages}"])
        run(["cmake", "--build", build])
        run([build / "consumer"], env={**place.env, "LD_LIBRARY_PATH": ""})
    return "with CMake alone"


PACKAGES = {"meson-pkg-config": meson_pkg_config, "meson-wrap": meson_wrap, "conan": conan, "vcpkg-port": vcpkg_port}


def main(prefix, work, *names):
    prefix, work = pathlib.Path(prefix).resolve(), pathlib.Path(work).resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)

    def attempt(name):
        place = Place(prefix, work / name)
        place.work.mkdir()
        make_files(place.work)
        return PACKAGES[name](place)

    return try_all(names or PACKAGES, attempt, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
