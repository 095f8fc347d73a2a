#!/bin/sh
# Makes the files once, then measures. usage: run.sh BUILD_FOLDER [arguments of run.py]
# SPDX-License-Identifier: Apache-2.0
set -eu
here=$(dirname "$0")
build=$1
shift
python=.deps/venv-bench/bin/python
if ! $python -c 'import numpy, safetensors, xxhash' 2>/dev/null; then
  python3 -m venv .deps/venv-bench && $python -m pip install -q numpy safetensors xxhash ||
    echo "the Python packages cannot be installed: their rows stay empty" >&2
  $python -m pip install -q runai-model-streamer torch --extra-index-url https://download.pytorch.org/whl/cpu 2>/dev/null ||
    echo "runai-model-streamer cannot be installed: its rows stay empty" >&2
fi
[ -x $python ] || python=python3
exec $python "$here/run.py" "$build" build/bench-data/read "$@"
