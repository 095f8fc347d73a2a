#!/bin/sh
# Makes a Python for Windows with what the tests import, that runs under wine 8: the JavaCPP presets' CPython, which has
# no installer, and packages of PyPI. Newer numpys want functions that wine's C library lacks.
# usage: make_python.sh FOLDER PYTHON     absolute paths; the Python has pip. Maven's mvn and mingw-w64 are needed, too.
# FOLDER/make_python.sh is this script as it was when it made the folder.
# SPDX-License-Identifier: Apache-2.0
set -eu
folder=$1 python=$2
here=$(cd "$(dirname "$0")" && pwd)
version=3.11.3-1.5.9
sha256=3263a50b256447bb7b9e604d6587627e419891370fc33b94469e6a06ff4de834
packages='numpy==2.1.3 ml_dtypes==0.5.4 safetensors==0.8.0 pytest==9.2.0 colorama==0.4.6'
jar=cpython-$version-windows-x86_64.jar

new=$folder.new
rm -rf "$new" "$folder"
mkdir -p "$new"
cd "$new"
mvn -q -B dependency:copy "-Dartifact=org.bytedeco:cpython:$version:jar:windows-x86_64" "-DoutputDirectory=$new" \
  >log 2>&1 || { cat log >&2; exit 1; }
echo "$sha256  $jar" | sha256sum --check --quiet
"$python" - "$jar" <<'END'
import pathlib, sys, zipfile
root = "org/bytedeco/cpython/windows-x86_64/"
with zipfile.ZipFile(sys.argv[1]) as jar:
    for name in jar.namelist():
        path = name.removeprefix(root)
        if name != path and not name.endswith("/") and (path in ("python.exe", "python311.dll") or path.startswith("lib/")):
            pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
            pathlib.Path(path).write_bytes(jar.read(name))
END
# shellcheck disable=SC2086
"$python" -m pip install -q --disable-pip-version-check --retries 1 --no-compile --only-binary=:all: --platform win_amd64 \
  --implementation cp --python-version 3.11 --target lib/site-packages $packages

# What the reference's package wants besides: a function that wine lacks, and the names of the stable ABI, which the jar
# has under those of this version only.
tools=x86_64-w64-mingw32
$tools-gcc -shared -s -o bcryptprimitives.dll "$here/bcryptprimitives.c" -ladvapi32
{
  printf 'LIBRARY python3.dll\nEXPORTS\n'
  $tools-objdump -p lib/site-packages/safetensors/_safetensors_rust.pyd |
    awk '/DLL Name: / { dll = $3 } dll == "python3.dll" && $3 ~ /^_?Py/ { print $3 "=python311." $3 }'
} >python3.def
grep -q '=python311\.' python3.def
$tools-gcc -shared -nostdlib -s -Wl,-e,0 -o python3.dll python3.def

rm "$jar" log python3.def
cp "$here/make_python.sh" .
mv "$new" "$folder"
