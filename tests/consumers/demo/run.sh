#!/bin/sh
# The demo: two C programs find the installed library through pkg-config; one writes a checkpoint, the other reads it;
# then the installed command shows it.
# usage: run.sh PREFIX WORK
# SPDX-License-Identifier: Apache-2.0
set -eu
here=$(dirname "$0")
prefix=$1 work=$2
library=$(find "$prefix" -name libsafetensors.so)
libdir=$(dirname "$library")
model=$work/gpt2.safetensors
show="$prefix/bin/safetensors show $model --limit 3"

PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
for program in make_gpt2 demo; do
  echo "\$ cc $program.c -o $program \$(pkg-config --cflags --libs safetensors) && ./$program gpt2.safetensors"
  # shellcheck disable=SC2046
  cc -O2 "$here/$program.c" $(pkg-config --cflags --libs safetensors) "-Wl,-rpath,$(cd "$libdir" && pwd)" -o "$work/$program"
  "$work/$program" "$model"
done
echo "\$ safetensors show gpt2.safetensors --limit 3"
$show

cat <<END

What this was:
  1. The library, $(($(stat -L -c %s "$library") / 1024)) KiB, was built and installed into $prefix, with its headers and its command.
  2. make_gpt2.c wrote $(($(stat -c %s "$model") / 1000000)) MB in GPT-2's layout, tensor by tensor in pieces of 256 KiB. The file appeared when it
     was whole: a program killed before leaves what was there.
  3. demo.c opened it, which checks the whole header against the size of the file, read the largest tensor as a
     copy, compared it with the view into the mapped file, and each value with the formula that made it.
  4. The command listed three of its tensors, its metadata and its totals.
The programs are in $here; README.md has shorter ones. To look around:
  $prefix/bin/safetensors show $model
  $prefix/bin/safetensors --help
END
