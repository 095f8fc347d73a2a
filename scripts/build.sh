# Configures, builds and tests a preset. Read by ./dev.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh

# quietly LOG COMMAND...: prints the command's output only if it fails. Until then, shows the last line of the output: on a
# terminal at once, elsewhere every ten seconds.
quietly() {
  log=$1
  shift
  mkdir -p "$(dirname "$log")"
  rm -f "$log.failed"
  if [ -t 2 ]; then
    { "$@" 2>&1 || touch "$log.failed"; } | tee "$log" | while IFS= read -r line; do printf '\r%.79s\033[K' "$line" >&2; done
    printf '\r\033[K' >&2
  else
    : >"$log"
    start_telling "$log"
    "$@" >"$log" 2>&1 || touch "$log.failed"
    stop_telling
  fi
  [ -f "$log.failed" ] || return 0
  grep -v '^\[[0-9]*/[0-9]*\] ' "$log" >&2  # but for ninja's names of what it built
  return 1
}

# Prints the last line of a file every ten seconds, until stop_telling is called or this script ends.
start_telling() {
  # The sleep may outlive the loop, so it must not keep the output open.
  while sleep 10 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do say "  $(tail -n 1 "$1" | cut -c1-100)"; done >/dev/null &
  teller=$!
}

stop_telling() { kill "$teller" 2>/dev/null && wait "$teller" 2>/dev/null || true; }

# configure PRESET [cmake arguments]: into build/PRESET, or into the folder given with -B, which $folder then names
configure() {
  preset=$1
  shift
  case $preset in
    self-contained | asan | tsan | fuzz | windows | cross | zig) set -- "$@" "$(simdjson_source)" ;;
  esac
  case $preset in
    asan | clang | fuzz | tsan)
      clang_tool clang++
      [ "$preset" = clang ] || need_clang_runtime
      set -- "-DCMAKE_C_COMPILER=clang${tool#clang++}" "-DCMAKE_CXX_COMPILER=$tool" "$@" ;;
  esac
  ! have ccache || set -- "$@" -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
  folder=build/$preset
  for argument in "$@"; do
    shift
    case $argument in
      '') continue ;;  # cmake would take it for a path
      -B*) folder=${argument#-B} ;;
    esac
    set -- "$@" "$argument"
  done
  quietly "$folder/configure.log" cmake --preset "$preset" --log-level=WARNING --no-warn-unused-cli "$@" || {
    ! grep -q 'Neither installed nor downloaded' "$folder/configure.log" || say "with a network, ./dev deps installs and fetches them"
    return 1
  }
  ! grep -q '^CMake.* Warning' "$folder/configure.log" || cat "$folder/configure.log" >&2
}

build() {
  configure "$@"
  build_configured "$@"
}

build_configured() {
  case $* in *-DST_SINGLE=/*) build_target single_tests ;; *) build_target all ;; esac
}

# Like configure, for another system, with the sources of the libraries: one argument a line, whose path may hold spaces.
configure_for_others() {
  sources=$(foreign_sources)
  while IFS= read -r source; do set -- "$@" "$source"; done <<END
$sources
END
  configure "$@"
}

build_for_others() {
  configure_for_others "$@"
  build_configured "$@"
}

# build_by_zig TARGET [cmake arguments]: the same by zig, which is a script in each folder (cmake/zig.cmake). ccache is
# told by which compilers these scripts differ, or it would compile everything anew for each.
build_by_zig() {
  fetched_zig || die "zig cannot be had (PyPI: ziglang)"
  CCACHE_COMPILERCHECK="string:zig $("$zig" version) for $1"
  export CCACHE_COMPILERCHECK
  zig_target=$1
  shift
  build_for_others zig "-DST_TARGET=$zig_target" "-DST_ZIG=$zig" "$@"
  unset CCACHE_COMPILERCHECK
}

build_target() {
  say "building $folder"
  quietly "$folder/build.log" cmake --build "$folder" --target "$1" -- -k 0  # every error in one run
}

# run_tests [arguments of ctest, among which those of cmake are left out]
run_tests() {
  for argument in "$@"; do
    shift
    case $argument in -D*) ;; *) set -- "$@" "$argument" ;; esac
  done
  say "testing $folder"
  rm -f "$folder/tests.xml" "$folder/tests.failed"
  [ -t 1 ] && set -- --progress "$@" || start_telling "$folder/tests.log"
  { ctest --test-dir "$folder" --no-tests=error --output-on-failure --output-junit "$top/$folder/tests.xml" \
      --test-output-size-passed 1000000 "$@" || touch "$folder/tests.failed"; } | tee "$folder/tests.log" | without_passed
  [ -t 1 ] || stop_telling
  [ ! -f "$folder/tests.xml" ] || python3 tests/checks/tally.py "$folder/tests.xml"
  [ ! -f "$folder/tests.failed" ]
}

without_passed() {
  if [ -t 1 ]; then cat; else grep -vE '^ +Start +[0-9]+: |^ *[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed '; fi
}

# Each says what it builds and what not, since a folder remembers what it was told before. Nobody waits for the crates
# that only bench compares with.
tests_only='-DST_BUILD_TESTS=ON -DST_BUILD_CLI=ON -DST_BUILD_BENCH=OFF -DST_BUILD_FUZZ=OFF -DCARGO= -DST_SINGLE= -DST_LONG_TESTS=OFF'
library_only='-DST_BUILD_CLI=ON -DST_BUILD_TESTS=OFF -DST_BUILD_BENCH=OFF -DST_BUILD_FUZZ=OFF -DST_SINGLE='

# Those of the arguments of a verb that are for cmake; the others are for ctest.
for_cmake() {
  for argument in "$@"; do
    case $argument in -D*) printf '%s ' "$argument" ;; esac
  done
}

# build_tests PRESET [arguments of cmake, among which those of ctest are left out]
build_tests() {
  preset=$1
  shift
  for argument in "$@"; do
    shift
    case $argument in -D*) set -- "$@" "$argument" ;; esac
  done
  # shellcheck disable=SC2086
  build "$preset" $tests_only "$(reference_python)" "$@"
}

has_libcurl() {
  pkg-config --atleast-version=7.85 libcurl ||
    { say "skipped: libcurl 7.85 or newer is missing (./dev deps installs $http_libraries)"; return 1; }
}

configure_http() {
  # shellcheck disable=SC2086
  configure dev -Bbuild/http $tests_only -DST_UNIT_TESTS=OFF -DST_BUILD_HTTP=ON -DST_BUILD_FUZZ=ON "$(reference_python)"
}

# The programs of the other tests are not built.
test_http() {
  has_libcurl || return 0
  configure_http
  build_target http_tests
  run_tests -R '^(http|fuzz\.http|abi\.baseline_http|checks\.symbols_http)' "$@"
}

# Records the ABI of the unreleased version.
freeze() {
  build_tests dev
  tests/abi/compare.sh "$folder/libsafetensors.so" --freeze
  if has_libcurl; then
    configure_http
    build_target safetensors_http
    tests/abi/compare.sh "$folder/http/libsafetensors-http.so" --freeze
  fi
}

# Sets $prefix, where the build of a preset is then installed. Its folder is as deep as those of ./dev test and ./dev python,
# so that ccache, which sees relative paths in .ci/run, has compiled the same already. The command is in one of them.
install_for_consumers() {
  prefix=$top/build/consumers-$1/prefix
  rm -rf "$prefix"
  command=ON
  [ "$1" = dev ] || command=OFF
  # shellcheck disable=SC2086
  build "$1" "-Bbuild/consumers-$1" $library_only -DST_BUILD_CLI=$command
  cmake --install "$folder" --prefix "$prefix" >/dev/null
}

# make_wheel FOLDER LIBRARY [TAG]: the wheel of bindings/python with a library in it, which the tag says to be of another
# platform
make_wheel() {
  rm -rf bindings/python/build  # setuptools would take old modules from there
  SAFETENSORS_C_LIBRARY=$top/$2 "$python" -m pip wheel -q --no-deps --no-build-isolation --disable-pip-version-check \
    ${3:+--config-settings=--build-option=--plat-name="$3"} -w "$1" ./bindings/python
}

# The driver that the tests of devices load in the place of CUDA's (tests/devices).
fake_cuda() {
  ST_FAKE_CUDA=$top/$folder/libfake_cuda.so
  export ST_FAKE_CUDA
  "${CXX:-c++}" -std=c++20 -O1 -fPIC -shared -pthread -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic \
    tests/devices/fake_gpu.cpp tests/devices/fake_cuda.cpp -o "$ST_FAKE_CUDA"
}

run_consumers() {
  need_to_build python3:python3
  if [ $# -gt 0 ]; then
    install_for_consumers self-contained
    python3 tests/consumers/languages.py "$prefix" "$folder/languages" "$@"
    return
  fi
  failed=0 started=$(date +%s)
  CONSUMERS_TALLY=$top/build/consumers-tally
  export CONSUMERS_TALLY
  rm -f "$CONSUMERS_TALLY"
  for preset in dev self-contained; do
    install_for_consumers $preset
    python3 tests/consumers/run.py "$prefix" "$folder/work" $preset || failed=1
  done
  python3 tests/consumers/languages.py "$prefix" "$folder/languages" || failed=1
  say "the consumers took $(($(date +%s) - started)) s, with the build of the library"
  awk '{ passed += $1; failed += $2; skipped += $3 }
       END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$CONSUMERS_TALLY"
  return $failed
}
