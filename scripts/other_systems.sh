# Builds and tests for other systems and processors. Read by ./dev.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh

# The wheel that ./dev package windows makes, too.
install_windows_wheel() {
  python_for_tests
  rm -rf "$folder/wheel" "$folder/installed"
  make_wheel "$folder/wheel" "$folder/bin/safetensors.dll" win_amd64
  "$python" -m pip install -q --no-deps --disable-pip-version-check --no-compile --only-binary=:all: --platform win_amd64 \
    --target "$folder/installed" "$folder"/wheel/*.whl
}

# Gives Wine a folder of this checkout. Keeps it quiet, without the dialogues of its first start.
set_up_wine() {
  export WINEPREFIX="$top/build/wine" WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=;winedbg.exe=d"
}

test_on_windows() {
  need_to_cross_build
  need python3-venv
  (need_wine) || say "wine cannot be had, see above"
  set_up_wine
  windows_python=$(python_for_windows)
  given=$(for_cmake "$@")
  # shellcheck disable=SC2086
  build_for_others windows $tests_only "-DST_WINDOWS_PYTHON=$windows_python" $given
  wine=$(sed -n 's/^ST_WINE:FILEPATH=//p' "$folder/CMakeCache.txt")
  if [ ! -x "$wine" ]; then
    say "without wine only what was linked is checked: the tests of $folder are SKIPPED"
    run_tests -R checks.dll
    return
  fi
  mkdir -p "$WINEPREFIX"
  # One server for all tests: the usual one ends with its last program, and takes along what starts just then. It
  # outlives this script, so it must not hold its output, which may be a pipe that somebody reads to the end.
  ! have wineserver || wineserver -p60 >"$folder/wineserver.log" 2>&1 || say "taking the wineserver that runs"
  "$wine" wineboot --init >"$folder/wineboot.log" 2>&1 || { cat "$folder/wineboot.log" >&2; die "wine does not start"; }
  case $given in
    *-DST_SINGLE=*) ;;  # has no DLL
    *) [ -z "$windows_python" ] || install_windows_wheel ;;
  esac
  run_tests "$@"
}

test_under_qemu() {
  need_to_emulate "${1:-}"
  machine=$1
  shift
  given=$(for_cmake "$@")
  # shellcheck disable=SC2086
  build_for_others cross "-Bbuild/qemu-$machine" -DST_TARGET=$target -DST_QEMU=$emulator \
    $tests_only -DST_BUILD_CLI=OFF -DST_UNIT_TESTS=ON $given
  # What the emulator does not do as the kernel does: docs/platforms.md.
  run_tests -E '^capi\.(large_files|many_files|special_files)$' "$@"
}

test_on_musl() {
  # shellcheck disable=SC2086
  need $build_tools python3:python3 python3-venv
  [ -e "/lib/ld-musl-$(uname -m).so.1" ] || need musl
  given=$(for_cmake "$@")
  failed=0
  for shared in ON OFF; do
    # shellcheck disable=SC2086
    build_by_zig "$(uname -m)-linux-musl" "-Bbuild/musl-shared-$shared" -DBUILD_SHARED_LIBS=$shared \
      $tests_only -DST_BUILD_CLI=OFF -DST_UNIT_TESTS=$shared $given
    run_tests "$@" || failed=1
  done
  return $failed
}

build_for_macos() {
  # shellcheck disable=SC2086
  need $build_tools python3:python3 python3-venv
  for machine in aarch64 x86_64; do
    # shellcheck disable=SC2086
    build_by_zig "$machine-macos.11.0" "-Bbuild/macos-$machine" \
      $tests_only -DST_BUILD_CLI=OFF -DST_UNIT_TESTS=ON "$@"
  done
}
