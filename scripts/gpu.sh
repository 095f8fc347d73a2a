# The job gpu: the tests of devices and bench/gpu on the driver of a GPU. Read by ./dev.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh

# run_on_gpu [arguments of bench/gpu/run.py]
run_on_gpu() {
  need python3:python3
  case " $* " in
    *' --built'* | *' --help '* | *' -h '*) python3 bench/gpu/run.py "$@"; return ;;
    *' --fake '*) ;;
    *)
      found=0
      python3 bench/gpu/run.py --find || found=$?
      [ $found != 3 ] || return 0
      [ $found = 0 ] || return $found ;;
  esac
  build_for_gpu
  python3 bench/gpu/run.py --built "$folder" "$@"
}

# Needs no more than compilers: a machine with a GPU may have no network, but the sources of the libraries in .deps.
build_for_gpu() {
  need cmake:cmake ninja:ninja-build c++:g++
  set --
  for item in fmtlib:FMT googletest:GOOGLETEST xxhash:XXHASH; do
    [ ! -d "$deps/${item%:*}" ] || set -- "$@" "-DFETCHCONTENT_SOURCE_DIR_${item#*:}=$deps/${item%:*}"
  done
  # shellcheck disable=SC2086
  configure self-contained -Bbuild/gpu $tests_only -DST_BUILD_CLI=OFF -DST_UNIT_TESTS=OFF "$@"
  build_target st_gpu
}
