"""Builds the packages of one commit twice and compares them bit by bit.

The two builds have different directories, times, locales, time zones and umasks. They run without ccache, which would give
the second build the objects of the first.
usage: twice.py [PLATFORM...]      ./dev package PLATFORM... of the last commit; by default sources, debian and linux
       twice.py --quick PYTHON     archives of the sources and the two files, the sdist, and a wheel around a given file, all
                                   from the tracked files as they are; exit code 77 if a prerequisite is missing

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WAYS = (("one", 0o022, {"LC_ALL": "C", "TZ": "UTC0"}),
        ("another/and deeper/directory", 0o077, {"LC_ALL": "C.UTF-8", "LANGUAGE": "de", "TZ": "<+1245>-12:45"}))
RESULTS = ("build/packages/*", "build/archive/libsafetensors.a", "build/archive/libsafetensors.so",
           "build/package/libsafetensors.a", "build/package/libsafetensors.so", "build/package/cli/safetensors")
# Runs without the verb, which would fetch missing packages.
QUICK = r'''
set -eu
top=$PWD deps=$PWD/.deps made=$PWD/build/packages python=$1 verb=twice
say() { :; }
die() { echo "$@" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
for script in packages sources build single package; do . "scripts/$script.sh"; done
fix_environment
mkdir -p "$made"
pack_sources
cp LICENSE build/library.so
SAFETENSORS_C_BOM=$made/libsafetensors-$(own_version).spdx.json
export SAFETENSORS_C_BOM
make_wheel "$made" build/library.so linux_x86_64
'''


def run(command, folder, **options):
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode:
        sys.exit(f"{command[0]} failed in {folder}:\n{done.stdout[-4000:]}")
    return done.stdout


def checkout(folder, quick, umask):
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not quick:
        run(["git", "clone", "-q", ROOT, folder], ROOT, umask=umask)
    else:
        folder.mkdir()
        for name in run(["git", "ls-files", "-z"], ROOT).split("\0"):
            if name and (ROOT / name).is_file() and not name.startswith(("tests/", "fuzz/", "bench/", "docs/")):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)
                (folder / name).chmod(0o777 & ~umask if os.access(ROOT / name, os.X_OK) else 0o666 & ~umask)
        fixed = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
                 for what, value in (("NAME", "n"), ("EMAIL", "n@localhost"), ("DATE", "1700000000 +0000"))}
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
            run(["git", *command], folder, env={**os.environ, **fixed})
    (folder / ".deps").symlink_to((ROOT / ".deps").resolve())


def build(folder, way, quick, arguments):
    _, umask, environment = way
    checkout(folder, quick, umask)
    command = ["sh", "-c", QUICK, "sh", *arguments] if quick else ["./dev", "package", *arguments]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "SOURCE_DATE", "CCACHE"))}
    text = run(command, folder, umask=umask, env={**kept, **environment, "CCACHE_DISABLE": "1", "HOME": str(folder)})
    (folder / "build/log").write_text(text)


def results(folder):
    found = [path for pattern in RESULTS for path in sorted(folder.glob(pattern)) if path.is_file()]
    return {path.relative_to(folder / "build").as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def lacking(python):
    """Names a prerequisite that is missing: a test fetches nothing."""
    if subprocess.run([python, "-c", "import setuptools.command.bdist_wheel"], capture_output=True).returncode:
        return f"setuptools of {python}"
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        return "a checkout of git"
    return next((f".deps/{name}" for name in ("simdjson", "fmtlib", "xxhash")
                 if not (ROOT / ".deps" / name).is_dir()), None)


def main():
    quick = sys.argv[1:2] == ["--quick"]
    arguments = sys.argv[2:] if quick else sys.argv[1:] or ["sources", "debian", "linux"]
    if quick and (missing := lacking(arguments[0])):
        print(f"skipped: there is no {missing} (./dev deps fetches it)")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        folders = [pathlib.Path(scratch, way[0]) for way in WAYS]
        for folder, way in zip(folders, WAYS):
            build(folder, way, quick, arguments)
        one, other = map(results, folders)
    different = 0
    for name in sorted({*one, *other}):
        pair = one.get(name, "missing"), other.get(name, "missing")
        same = pair[0] == pair[1]
        different += not same
        print(f"{'same   ' if same else 'DIFFERS'} {name}\n  {pair[0]}\n  {pair[1]}")
    print(f"{len(one)} files, {different} differ")
    return bool(different) or not one


if __name__ == "__main__":
    sys.exit(main())
