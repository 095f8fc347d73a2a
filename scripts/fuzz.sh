# The jobs fuzz and differential. Read by ./dev.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh

# run_fuzzers [SECONDS [NAME...]]; the name oss-fuzz stands for fuzz/oss-fuzz/build.sh.
run_fuzzers() {
  need_to_build zip:zip unzip:unzip
  clang_tool clang++
  need_clang_runtime
  seconds=${1:-60}
  [ $# = 0 ] || shift
  [ $# != 0 ] || set -- $(cd fuzz && for folder in */corpus; do echo "${folder%/corpus}"; done) oss-fuzz
  curl=OFF
  pkg-config --atleast-version=7.85 libcurl && curl=ON || say "without libcurl 7.85 or newer there is no fuzz_http"
  [ "$*" = oss-fuzz ] || {
    configure fuzz -DST_BUILD_TESTS=OFF -DST_BUILD_BENCH=OFF -DST_BUILD_HTTP=$curl
    build_target fuzz_targets
  }
  for name in "$@"; do
    [ "$name" != oss-fuzz ] || { try_oss_fuzz; continue; }
    [ "$name$curl" != httpOFF ] || continue
    say "fuzzing $name for $seconds s"
    mkdir -p "build/fuzz-found/$name"
    words=fuzz/$name/words.dict
    # shellcheck disable=SC2046  # libFuzzer does not follow a link to a folder by itself
    "$folder/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
      -artifact_prefix="build/fuzz-found/$name-" $([ ! -f "$words" ] || echo "-dict=$words") \
      "build/fuzz-found/$name" $(find -L "fuzz/$name/corpus" -type d)
  done
}

# Builds the targets as OSS-Fuzz does, and runs each of them on a part of its seeds.
try_oss_fuzz() {
  place=$top/build/oss-fuzz
  rm -rf "$place"
  mkdir -p "$place/src" "$place/out" "$place/work" "$place/seeds"
  ln -s "$top" "$place/src/libsafetensors"
  simdjson=$(simdjson_source)
  say "building by fuzz/oss-fuzz/build.sh"
  flags='-O1 -fno-omit-frame-pointer -gline-tables-only -fsanitize=address,fuzzer-no-link'
  quietly "$place/build.log" env CC="clang${tool#*clang++}" CXX="$tool" CFLAGS="$flags" CXXFLAGS="$flags" \
    LIB_FUZZING_ENGINE=-fsanitize=fuzzer SRC="$place/src" OUT="$place/out" WORK="$place/work" \
    ${simdjson:+"FETCHCONTENT_SOURCE_DIR_SIMDJSON=${simdjson#*=}"} fuzz/oss-fuzz/build.sh
  count=0
  for target in "$place"/out/fuzz_*; do
    [ -x "$target" ] || continue
    name=${target##*/fuzz_}
    unzip -qo "${target}_seed_corpus.zip" -d "$place/seeds/$name"
    [ ! -f "fuzz/$name/words.dict" ] || set -- -dict="$target.dict"
    quietly "$place/$name.log" "$target" -runs=500 "$@" "$place/seeds/$name/corpus"
    set --
    count=$((count + 1))
  done
  [ $count -ge 7 ] || die "fuzz/oss-fuzz/build.sh made only $count targets"
  say "fuzz/oss-fuzz/build.sh made $count targets, which run"
}

# compare_verdicts crate|ARCH|REVISION [CASES] [SEED]
compare_verdicts() {
  other=${1:?what to compare with: crate, a processor of ./dev qemu, or a revision}
  set -- "${2:-1000000}" "${3:-1}" tests/conformance
  case $1$2 in *[!0-9]*) die "CASES and SEED are numbers: $1 $2" ;; esac
  [ "$1" -gt 0 ] || die "no cases to compare"
  case $other in
    crate) compare_with_crate "$@" ;;
    aarch64 | armhf | i386 | riscv64 | s390x) compare_under_qemu "$@" ;;
    *) compare_with_revision "$@" ;;
  esac
}

compare_with_revision() {
  need_to_build git:git
  revision=$(git rev-parse -q --verify "$other^{commit}") || die "neither crate, nor a processor, nor a revision: $other"
  configure release -Bbuild/differential -DST_BUILD_FUZZ=ON "-DST_DIFFERENTIAL_REVISION=$revision"
  build_target fuzz_differential
  "$folder/fuzz/fuzz_differential" "$@"
}

compare_with_crate() {
  need_to_build
  have cargo || die "cargo, which builds the reference's crate, is missing"
  configure release -Bbuild/differential-crate -DST_BUILD_FUZZ=ON -DST_DIFFERENTIAL_CRATE=ON "-DCARGO=$(command -v cargo)"
  build_target fuzz_reference
  "$folder/fuzz/fuzz_reference" "$@"
}

# Takes this machine's answers as correct; compare_with_crate checks them.
compare_under_qemu() {
  need_to_build
  need_to_emulate "$other"
  configure release -Bbuild/differential-here -DST_BUILD_FUZZ=ON
  build_target fuzz_reference
  "$folder/fuzz/fuzz_reference" "$@" >"$folder/answers" || return
  digest=$(grep '^digest' "$folder/answers")
  configure_for_others cross "-Bbuild/differential-$other" -DST_TARGET=$target -DST_QEMU=$emulator -DST_BUILD_TESTS=OFF \
    -DST_BUILD_BENCH=OFF -DST_BUILD_FUZZ=ON
  build_target fuzz_reference
  "$emulator" -L "/usr/$target" "$folder/fuzz/fuzz_reference" "$@" >"$folder/answers" || return
  cat "$folder/answers"
  grep -qxF "$digest" "$folder/answers" || die "on $other the digest differs from this machine's: $digest"
}
