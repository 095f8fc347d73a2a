#!/bin/sh
# Nothing that the frozen versions of the header promised has changed: no function is gone or has another signature, no
# struct is laid out differently. New functions and appended fields are what versions are made of.
# usage: compare.sh LIBRARY             with every tests/abi/<version>/safetensors.abi, or safetensors-http.abi for that library
#        compare.sh LIBRARY --freeze    writes the one of the version that the header says, until that is released
# SPDX-License-Identifier: Apache-2.0
set -eu
here=$(cd "$(dirname "$0")" && pwd)
include=$here/../../include
library=$1
case ${library##*/} in
  libsafetensors-http.*) header=http.h sources=http baseline=safetensors-http.abi ;;
  *) header=safetensors.h sources=capi baseline=safetensors.abi ;;
esac

number() { sed -n "s/^#define ST_VERSION_$1 //p" "$include/safetensors/safetensors.h"; }

if [ "${2:-}" = --freeze ]; then
  frozen=$here/$(number MAJOR).$(number MINOR)
  mkdir -p "$frozen/safetensors"
  cp "$include/safetensors/$header" "$frozen/safetensors/"
  # The folder of the sources would name the machine that they were compiled on.
  abidw --headers-dir "$include" --drop-private-types --exported-interfaces-only --no-comp-dir-path --no-corpus-path \
    --no-show-locs --no-elf-needed --type-id-style hash "$library" |
    sed "s#path='[^']*/$sources/#path='$sources/#" >"$frozen/$baseline"
  grep -q '<parameter ' "$frozen/$baseline" || { echo "${library##*/} was not compiled with -g: it has no types"; exit 1; }
  exit
fi

grown=$(mktemp)
trap 'rm -f "$grown"' EXIT
for frozen in "$here"/*/"$baseline"; do
  [ -f "$frozen" ] || { echo "no version of ${library##*/} is frozen"; exit 1; }
  python3 "$here/grown.py" "${frozen%/*}/safetensors/$header" "$include/safetensors/$header" >"$grown"
  abidiff --no-added-syms --no-corpus-path --suppressions "$grown" --suppressions "$here/exceptions.suppr" "$frozen" "$library"
done
