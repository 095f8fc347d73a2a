#!/bin/sh
# Compares the prototypes of src/device with those of the drivers' own headers, where a package has brought these: cuda.h of
# NVIDIA's Python packages or toolkit, hip_runtime_api.h of Debian's libamdhip64-dev or ROCm, which ./dev deps fetches.
# ST_CUDA_INCLUDE and ST_HIP_INCLUDE name other folders.
# usage: prototypes.sh COMPILER PYTHON cuda|hip
# SPDX-License-Identifier: Apache-2.0
set -eu
compiler=$1 python=$2 driver=$3
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
fetched=$here/../../.deps/drivers

folders() {
  case $driver in
    cuda)
      printf '%s\n' "${ST_CUDA_INCLUDE:-}" "$fetched"/nvidia/*/include /usr/local/cuda/include /usr/include
      "$python" -c 'import sys, pathlib
for folder in sys.path:
    print(*pathlib.Path(folder).glob("nvidia/*/include"), sep="\n")' ;;
    hip) printf '%s\n' "${ST_HIP_INCLUDE:-}" "$fetched/usr/include" /opt/rocm/include /usr/include ;;
  esac
}

case $driver in
  cuda) header=cuda.h ;;
  hip) header=hip/hip_runtime_api.h ;;
esac
found=$(folders | while read -r folder; do
  if [ -n "$folder" ] && [ -e "$folder/$header" ]; then echo "$folder"; fi
done | head -n 1)
if [ -z "$found" ]; then
  echo "SKIPPED: there is no $header on this machine"
  exit 77
fi
"$compiler" -std=c++20 -fsyntax-only -D__HIP_PLATFORM_AMD__ -I"$here/../../src" -I"$here" -isystem "$found" \
  "$here/${driver}_prototypes.cpp"
echo "as in $found/$header"
