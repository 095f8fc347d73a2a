#!/bin/sh
# Builds the fuzz targets for OSS-Fuzz, with the compilers, flags and engine that it sets: each target, its seeds in
# TARGET_seed_corpus.zip, its dictionary, and the shared libraries that the targets need. ./dev fuzz oss-fuzz tries it.
# SPDX-License-Identifier: Apache-2.0
set -eu
cd -P "$SRC/libsafetensors"
work=${WORK:-$SRC}/fuzz-build

# This build type adds no flags to $CFLAGS and $CXXFLAGS. The targets find their libraries next to them, and by an RPATH
# also those that the libraries need.
simdjson=${FETCHCONTENT_SOURCE_DIR_SIMDJSON:-$SRC/simdjson}
cmake -S . -B "$work" -G Ninja -DCMAKE_BUILD_TYPE=Fuzz -DST_UNITY=ON -DST_SELF_CONTAINED=ON \
  "-DFETCHCONTENT_SOURCE_DIR_SIMDJSON=$simdjson" -DST_FUZZING_ENGINE="$LIB_FUZZING_ENGINE" \
  -DST_BUILD_HTTP="$(pkg-config --atleast-version=7.85 libcurl && echo ON || echo OFF)" \
  -DST_BUILD_TESTS=OFF -DST_BUILD_BENCH=OFF -DST_INSTALL=OFF \
  -DCMAKE_BUILD_RPATH='$ORIGIN/lib' -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags
cmake --build "$work" --target fuzz_targets

mkdir -p "$OUT/lib"
for target in "$work"/fuzz/fuzz_*; do
  [ -f "$target" ] && [ -x "$target" ] || continue
  name=$(basename "$target")
  cp "$target" "$OUT/"
  (cd "fuzz/${name#fuzz_}" && zip -qr - corpus >"$OUT/${name}_seed_corpus.zip")
  dictionary=fuzz/${name#fuzz_}/words.dict
  [ ! -f "$dictionary" ] || cp "$dictionary" "$OUT/$name.dict"
  # The images that run the targets have only the C library.
  ldd "$target" | awk '$3 ~ "^/" && $1 !~ /^lib(c|m|dl|rt|pthread|gcc_s|resolv)\.so/ { print $3 }' |
    xargs -r cp -Lt "$OUT/lib"
done
