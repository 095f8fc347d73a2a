#!/bin/sh
# usage: run.sh BUILD_FOLDER [arguments of bench_columns]
# SPDX-License-Identifier: Apache-2.0
set -eu
build=$1
shift
mkdir -p build/bench-data
exec "$build/bench/columns/bench_columns" build/bench-data/columns.safetensors "$@"
