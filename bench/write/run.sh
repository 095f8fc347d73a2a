#!/bin/sh
# usage: run.sh BUILD_FOLDER [arguments of bench_write]
# SPDX-License-Identifier: Apache-2.0
set -eu
build=$1
shift
"$build/bench/write/bench_write" build/bench-data "$@"
