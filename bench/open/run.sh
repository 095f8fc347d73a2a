#!/bin/sh
# Makes the files once, then measures. usage: run.sh BUILD_FOLDER [arguments of bench_open]
# SPDX-License-Identifier: Apache-2.0
set -eu
here=$(dirname "$0")
build=$1
shift
python3 "$here/../layouts.py" --hostile build/bench-data
"$build/bench/open/bench_open" build/bench-data "$@"
for kernel in $("$build/bench/open/bench_open" --kernels); do
  SIMDJSON_FORCE_IMPLEMENTATION=$kernel "$build/bench/open/bench_open" build/bench-data --reused-only "$@"
done
"$build/bench/open/bench_open" build/bench-data --memory "$@"
