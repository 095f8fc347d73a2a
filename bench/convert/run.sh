#!/bin/sh
# Measures `convert` of a torch checkpoint beside the reference's converter. usage: run.sh BUILD_FOLDER [GIGABYTES]
# SPDX-License-Identifier: Apache-2.0
set -eu
python=${ST_BENCH_PYTHON:-python3}
"$python" -c 'import safetensors, torch' 2>/dev/null ||
  { echo "torch and safetensors are not in $python (ST_BENCH_PYTHON): nothing to compare with" >&2; exit 0; }
exec "$python" "$(dirname "$0")/run.py" "$1/cli/safetensors" build/bench-data/convert ${2:+"$2"}
