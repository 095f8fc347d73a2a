#!/bin/sh
# The demo: a checkpoint is made, a C program finds the installed library through pkg-config and reads it, and the
# installed command shows it.
# usage: run.sh PREFIX WORK
# SPDX-License-Identifier: Apache-2.0
set -eu
here=$(dirname "$0")
prefix=$1 work=$2
libdir=$(dirname "$(find "$prefix" -name libsafetensors.so)")
model=$work/gpt2.safetensors

python3 "$here/make_gpt2.py" "$model"

PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
cc -O2 "$here/demo.c" $(pkg-config --cflags --libs safetensors) "-Wl,-rpath,$(cd "$libdir" && pwd)" -o "$work/demo"
"$work/demo" "$model"

"$prefix/bin/safetensors" show "$model"
