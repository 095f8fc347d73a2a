#!/bin/sh
# Measures the Python package beside the reference. usage: run.sh BUILD_FOLDER [arguments of run.py]
# SPDX-License-Identifier: Apache-2.0
set -eu
here=$(dirname "$0")
build=$1
shift
python=${ST_BENCH_PYTHON:-.deps/venv-bench/bin/python}
if ! $python -c 'import numpy, safetensors' 2>/dev/null; then
  python3 -m venv .deps/venv-bench && $python -m pip install -q numpy safetensors ||
    { echo "the reference's Python package cannot be installed: nothing to compare with" >&2; exit 0; }
fi
SAFETENSORS_C_LIBRARY=$(cd "$build" && pwd)/libsafetensors.so PYTHONPATH="$here/../../bindings/python" \
  exec $python "$here/run.py" build/bench-data/python "$@"
