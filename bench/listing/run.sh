#!/bin/sh
# How long does it take a language without a compiler to list 100,000 tensors: by a call per answer, and by columns?
# usage: run.sh BUILD [TENSORS]
# SPDX-License-Identifier: Apache-2.0
set -eu
build=$1
shift
exec python3 "$(dirname "$0")/listing.py" "$build/libsafetensors.so" "$@"
