#!/bin/sh
# ./dev bench gpu: the loads of ./dev gpu, without its tests. Needs a GPU. usage: run.sh BUILD_FOLDER [arguments of run.py]
# SPDX-License-Identifier: Apache-2.0
set -eu
build=$1
shift
exec python3 "$(dirname "$0")/run.py" --built "$build" --tests='-*' "$@"
