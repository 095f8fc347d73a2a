#!/bin/sh
# Makes the files once, then measures. usage: run.sh BUILD_FOLDER [arguments of bench_open]
# SPDX-License-Identifier: Apache-2.0
set -eu
here=$(dirname "$0")
build=$1
shift
python3 "$here/../layouts.py" --hostile build/bench-data
"$build/bench/open/bench_open" build/bench-data "$@"
"$build/bench/open/bench_open" build/bench-data --memory "$@"
