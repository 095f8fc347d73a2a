#!/bin/sh
# The demo: two C programs find the installed library through pkg-config; one writes a checkpoint, the other reads it;
# then the installed command shows it.
# usage: run.sh PREFIX WORK
# SPDX-License-Identifier: Apache-2.0
set -eu
here=$(dirname "$0")
prefix=$1 work=$2
libdir=$(dirname "$(find "$prefix" -name libsafetensors.so)")
model=$work/gpt2.safetensors

PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
for program in make_gpt2 demo; do
  # shellcheck disable=SC2046
  cc -O2 "$here/$program.c" $(pkg-config --cflags --libs safetensors) "-Wl,-rpath,$(cd "$libdir" && pwd)" -o "$work/$program"
  "$work/$program" "$model"
done

"$prefix/bin/safetensors" show "$model"
