# The library as two files to copy (docs/vendoring.md). Read by ./dev.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh

# amalgamate [CHECKOUT [OUT]]: takes the pinned sources of the libraries from .deps/, so everyone gets the same files.
amalgamate() {
  simdjson=${FETCHCONTENT_SOURCE_DIR_SIMDJSON:-$deps/simdjson}
  pinned_source simdjson simdjson "$simdjson"
  pinned_source fmt fmtlib "$deps/fmtlib"
  pinned_source xxhash xxhash "$deps/xxhash"
  PYTHONUTF8=1 python3 "${1:-.}/scripts/amalgamate.py" "${2:-build/single}" "$simdjson" "$deps/fmtlib" "$deps/xxhash"
}

# pinned_source NAME PACKAGE DIRECTORY: if the directory is missing, fetches the release that CMake would fetch, or else
# the source package. The script rejects any other version.
pinned_source() {
  [ ! -d "$3" ] || return 0
  (cd scripts && python3 -m single.pinned "$1" "$3") || { have apt-get && apt_source "$2" "$3"; } ||
    die "$1 cannot be fetched: unpack the release that cmake/dependencies.cmake pins as $3"
}

copied_example=tests/conformance/files/zero_all_dtypes.safetensors
copy_warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'

test_single() {
  amalgamate
  python3 tests/single/script_test.py
  python3 tests/single/complete.py build/single
  clang_tool clang++
  python3 tests/single/macros.py build/single g++
  python3 tests/single/macros.py build/single "$tool"
  python3 tests/single/prefix.py build/single gcc g++
  ! have ccache || export CMAKE_CXX_COMPILER_LAUNCHER=ccache
  # Side by side, since each is one long compilation. Distributions define _FORTIFY_SOURCE, which makes g++ warn more, as
  # -O3 does.
  hosts=
  for host in g++ "$tool" "g++ -O3 -D_FORTIFY_SOURCE=2"; do
    { test_host "$host"; say "a project with a copy, by $host: passes"; } &
    hosts="$hosts $!"
  done
  failed=
  for host in $hosts; do wait "$host" || failed=1; done
  [ -z "$failed" ] || die "a project with a copy fails with each compiler that is not named above"
  with_copy="-DST_SINGLE=$top/build/single -R ^(unit|capi|conformance)"
  if [ "${1:-}" != all ]; then
    given=$(for_cmake "$@")
    # shellcheck disable=SC2086
    build dev -Bbuild/single-tests $tests_only "$(reference_python)" "-DST_SINGLE=$top/build/single" -DST_UNIT_TESTS=ON $given
    # shellcheck disable=SC2086
    run_tests $with_copy "$@"
    return
  fi
  shift
  failed=
  for job in "test dev" "test clang" asan windows "qemu aarch64" "qemu s390x"; do
    say "the two files: ./dev $job"
    # shellcheck disable=SC2086
    ./dev $job $with_copy "$@" || failed="$failed, $job"
  done
  for target in x86_64-linux-gnu x86_64-linux-musl aarch64-linux-gnu aarch64-linux-musl x86_64-windows-gnu \
    x86_64-macos aarch64-macos; do
    say "the two files: zig's clang for $target"
    single_by_zig $target || failed="$failed, zig $target"
  done
  [ -z "$failed" ] || die "the two files fail:${failed#,}"
}

# test_host "COMPILER [FLAGS]": compiles a project that contains the copy, and runs it.
test_host() {
  compiler=${1%% *} flags=${1#"${1%% *}"}
  folder=build/single-host/$compiler${flags:+-optimised}
  rm -rf "$folder"
  quietly "$folder/configure.log" cmake -S tests/single -B "$folder" -G Ninja "-DSINGLE=$top/build/single" \
    "-DCMAKE_CXX_COMPILER=$compiler" "-DCMAKE_CXX_FLAGS=$copy_warnings$flags"
  quietly "$folder/build.log" cmake --build "$folder"
  # Code for standard templates over the public structs would be shared by copies of two versions.
  ! nm -C "$folder/libsafetensors.a" | grep -E ' [WVu] .*\bst_' || die "weak symbols of $compiler's copy name public types"
  "$folder/host" "$folder"
  "$folder/example" $copied_example >/dev/null
}

# Compiles the copy and its example, and runs the example where this system can: not on macOS.
single_by_zig() {
  fetched_zig || die "zig cannot be had (PyPI: ziglang)"
  folder=build/single-zig/$1
  mkdir -p "$folder"
  # shellcheck disable=SC2086
  "$zig" c++ -target "$1" -std=c++17 -O2 -fno-rtti $copy_warnings -c build/single/safetensors.cpp -o "$folder/safetensors.o" &&
    "$zig" cc -target "$1" -O2 $copy_warnings -c build/single/example.c -o "$folder/example.o" &&
    "$zig" c++ -target "$1" "$folder/example.o" "$folder/safetensors.o" -o "$folder/example.exe" || return 1
  case $1 in
    *-macos) return ;;
    "$(uname -m)"-linux-musl | "$(uname -m)"-linux-gnu) runner= ;;
    aarch64-linux-*) runner="qemu-aarch64 -L /usr/aarch64-linux-gnu" ;;
    *-windows-*) set_up_wine && runner=wine ;;
    *) say "not run: $1"; return ;;
  esac
  # shellcheck disable=SC2086
  $runner "$folder/example.exe" $copied_example | tr -d '\r' >"$folder/example.txt" &&
    build/single-host/g++/example $copied_example | cmp - "$folder/example.txt"
}
