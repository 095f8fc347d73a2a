"""Runs the same program in every language that is installed, and compares what it prints.

usage: languages.py PREFIX WORK [NAME...]     PREFIX: where the library is installed

What a language fetches from its own registry is looked for in .deps/consumers: a skip says how it gets there.
SPDX-License-Identifier: Apache-2.0
"""
import dataclasses
import json
import os
import pathlib
import re
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


class Skip(Exception):
    pass


def run(command, cwd=None, env=None):
    command = [str(part) for part in command]
    done = subprocess.run(command, cwd=cwd, env=env, encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
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


def make_many(path, count=100_000):
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


# ---- the languages: each builds its program and returns (version, command) ---------------------------------------------

def c_with(command, package, *flags):
    def build(place):
        compiler = need(command, package)
        binary = place.work / "model"
        run([compiler, HERE / "c/model.c", "-o", binary, *flags, *place.link()])
        return version(compiler, "-v" if command == "tcc" else "--version"), [binary]
    return build


def ctypes(place):
    return version(sys.executable, "--version"), [sys.executable, HERE / "ctypes/model.py"]


def cffi(place):
    for python in [FETCHED / "py/bin/python", sys.executable]:
        if not pathlib.Path(python).exists():
            continue
        found = subprocess.run([python, "-c", "import cffi; print(cffi.__version__)"], capture_output=True, text=True)
        if found.returncode == 0:
            place.declarations()
            return found.stdout.strip(), [python, HERE / "cffi/model.py"]
    raise Skip("no cffi; PyPI has it: python3 -m venv .deps/consumers/py && .deps/consumers/py/bin/pip install cffi")


def go(place):
    compiler = need("go", "golang-go")
    env = {**place.env, "CGO_CFLAGS": f"-I{place.include}", "CGO_LDFLAGS": f"-L{place.library.parent} -lsafetensors",
           "GOFLAGS": "-mod=mod", "CGO_ENABLED": "1"}
    run([compiler, "build", "-o", place.work / "model", "."], cwd=HERE / "go", env=env)
    return version(compiler, "version"), [place.work / "model"]


def rust(place):
    compiler = need("rustc", "rustc")
    run([compiler, "--edition", "2021", "-O", HERE / "rust/model.rs", "-o", place.work / "model",
         "-L", f"native={place.library.parent}", "-l", "safetensors"])
    return version(compiler, "--version"), [place.work / "model"]


def node(place):
    program = need("node", "nodejs")
    if not (FETCHED / "node_modules/koffi").exists():
        raise Skip("no koffi; npm has it: npm install --prefix .deps/consumers koffi")
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
    place.declarations()
    return version(program, "--version"), [program, "-d", "ffi.enable=1", HERE / "php/model.php"]


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
    compiler = need("ocamlopt", "ocaml-nox")
    for name in ["model.ml", "stubs.c"]:
        shutil.copy(HERE / "ocaml" / name, place.work)
    run([compiler, "-ccopt", f"-I{place.include}", "stubs.c", "model.ml", "-o", "model",
         "-ccopt", f"-L{place.library.parent}", "-cclib", "-lsafetensors"], cwd=place.work)
    return version(compiler, "-version"), [place.work / "model"]


def java(place):
    compiler, jar = need("javac", "default-jdk-headless"), pathlib.Path("/usr/share/java/jna.jar")
    if not jar.exists():
        raise Skip("no JNA; Debian has it in libjna-java")
    run([compiler, "-encoding", "UTF-8", "-cp", jar, "-d", place.work, HERE / "java/Model.java"])
    return version(compiler, "-version"), ["java", "-Dstdout.encoding=UTF-8", "-Dfile.encoding=UTF-8", "-cp",
                                           f"{jar}:{place.work}", "Model"]


LANGUAGES = {"c-gcc": c_with("gcc", "gcc", "-std=c11"), "c-clang": c_with("clang", "clang", "-std=c11"),
             "c-tcc": c_with("tcc", "tcc"), "ctypes": ctypes, "cffi": cffi, "go": go, "rust": rust, "node": node,
             "luajit": luajit, "ruby": ruby, "php": php,
             "csharp": csharp, "perl": perl, "ocaml": ocaml, "java": java}


def check(name, prefix, work):
    place = Place(prefix, work / name)
    place.work.mkdir()
    found, command = LANGUAGES[name](place)
    make_files(place.work)
    printed = run(command, cwd=place.work, env=place.env)
    body, _, last = printed.rstrip("\n").rpartition("\n")
    assert body + "\n" == EXPECTED, f"printed\n{printed}"
    assert last.startswith(ERROR) and "truncated.safetensors" in last and len(last) > 50, f"the error reads: {last}"
    listing = run([*command, "--list", work / "many.safetensors"], cwd=place.work, env=place.env).strip()
    assert re.fullmatch(r"getters [\d.]+ ms, columns [\d.]+ ms", listing), listing
    return f"{found}  (100,000 tensors: {listing})"


def main(prefix, work, *names):
    prefix, work = pathlib.Path(prefix).resolve(), pathlib.Path(work).resolve()
    unknown = set(names) - set(LANGUAGES)
    if unknown:
        return f"{', '.join(sorted(unknown))}: not one of {' '.join(LANGUAGES)}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    make_many(work / "many.safetensors")
    counts = {"ok": 0, "skip": 0, "FAILED": 0}
    for name in names or LANGUAGES:
        try:
            verdict, rest = "ok", f"{name} {check(name, prefix, work)}"
        except Skip as reason:
            verdict, rest = "skip", f"{name}: {reason}"
        except AssertionError as problem:
            verdict, rest = "FAILED", f"{name}: {problem}"
        counts[verdict] += 1
        print(f"{verdict:7} {rest}", flush=True)
    print(f"languages: {counts['ok']} ok, {counts['skip']} skipped, {counts['FAILED']} failed")
    return counts["FAILED"] != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
