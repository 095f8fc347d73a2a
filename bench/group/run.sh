#!/bin/sh
# What does it cost if several processes read one checkpoint? Needs an MPI and FUSE 3.
# usage: run.sh BUILD [arguments of run.py]
# SPDX-License-Identifier: Apache-2.0
set -eu
build=$1
shift
exec python3 "$(dirname "$0")/run.py" "$build/libsafetensors.so" "$@"
