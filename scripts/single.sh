# The library as two files to copy (docs/vendoring.md). Read by ./dev.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh

# Takes the pinned sources of the libraries that .deps/ has, so that everyone gets the same files.
amalgamate() {
  simdjson_source >/dev/null
  foreign_sources >/dev/null
  python3 scripts/amalgamate.py build/single "${FETCHCONTENT_SOURCE_DIR_SIMDJSON:-$deps/simdjson}" "$deps/fmtlib" "$deps/xxhash"
}

test_single() {
  amalgamate
  python3 tests/single/complete.py build/single
  clang_tool clang++
  ! have ccache || export CMAKE_CXX_COMPILER_LAUNCHER=ccache
  for compiler in g++ "$tool"; do
    say "a project with a copy, by $compiler"
    folder=build/single-host/$compiler
    rm -rf "$folder"
    quietly "$folder/configure.log" cmake -S tests/single -B "$folder" -G Ninja "-DSINGLE=$top/build/single" \
      "-DCMAKE_CXX_COMPILER=$compiler" \
      "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
    quietly "$folder/build.log" cmake --build "$folder"
    # Code for standard templates over the public structs would be shared by copies of two versions.
    ! nm -C "$folder/libsafetensors.a" | grep -E ' [WVu] .*\bst_' || die "weak symbols of $compiler's copy name public types"
    "$folder/host" "$folder"
    "$folder/example" tests/conformance/files/zero_all_dtypes.safetensors >/dev/null
  done
  with_copy="-DST_SINGLE=$top/build/single -R ^(unit|capi|conformance)"
  if [ "${1:-}" != all ]; then
    # shellcheck disable=SC2086
    build dev -Bbuild/single-tests $tests_only "$(reference_python)" "-DST_SINGLE=$top/build/single"
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
  [ -z "$failed" ] || die "the two files fail:${failed#,}"
}
