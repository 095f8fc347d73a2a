# What a job needs of the system: lists of packages, and how they are installed. Only the verbs in may_install() install
# anything; the others print what is missing. Read by ./dev.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh

build_tools='cmake:cmake ninja:ninja-build c++:g++ pkg-config:pkg-config'
libraries='libsimdjson-dev libfmt-dev libxxhash-dev'
command_libraries='libcli11-dev nlohmann-json3-dev libssl-dev zlib1g-dev'
http_libraries='libcurl4-openssl-dev nginx-light'  # optional: for -DST_BUILD_HTTP=ON, and its tests with TLS
mpi='mpich libmpich-dev'  # optional: for the test of groups
test_tools='python3:python3 python3-venv git:git libgtest-dev'

# Each argument is command:package, or a package that holds no command.
need() {
  missing=
  for item in "$@"; do
    case $item in
      *:*) have "${item%%:*}" || missing="$missing ${item#*:}" ;;
      *) ! have dpkg-query || dpkg-query -W -f '${db:Status-Status}' "$item" 2>/dev/null | grep -qx installed ||
           missing="$missing $item" ;;
    esac
  done
  [ -z "$missing" ] || install_packages
}

may_install() {
  case $verb in deps | demo | test | python | windows | qemu | musl | macos | package) return 0 ;; *) return 1 ;; esac
}

install_packages() {
  have apt-get || die "install these first:$missing"
  may_install || die "missing:$missing (./dev deps installs what all the jobs need)"
  [ -z "$as_root" ] || have sudo || die "as root: apt-get install$missing"
  fetch_package_lists
  say "installing$missing"
  # shellcheck disable=SC2086
  apt_with_progress install -qy --no-install-recommends $missing
}

fetch_package_lists() {
  [ -z "${lists_are_fetched:-}" ] || return 0
  say "fetching the lists of packages"
  $as_root apt-get update -q >/dev/null || say "apt-get update: some lists could not be fetched"
  lists_are_fetched=1
}

# Says how far apt-get is at each fifth of the way, and what it printed only if it fails. sudo closes all descriptors but
# the first three, so that the fourth is made behind it.
apt_with_progress() {
  mkdir -p "$deps"
  : >"$deps/apt.log"
  # shellcheck disable=SC2016  # expanded by the inner shell
  { $as_root env DEBIAN_FRONTEND=noninteractive sh -c 'exec apt-get -o APT::Status-Fd=3 "$@" 3>&1 >"$0" 2>&1' \
      "$deps/apt.log" "$@" || echo failed; } | {
    said=
    while IFS=: read -r kind _ percent _; do
      case $kind in
        dlstatus) doing=downloading ;;
        pmstatus) doing=installing ;;
        failed) cat "$deps/apt.log" >&2; exit 1 ;;
        *) continue ;;
      esac
      now="$doing packages, $((${percent%%.*} / 20 * 20)) %"
      [ "$now" = "$said" ] || say "  $now"
      said=$now
    done
  }
}

need_to_build() {
  # shellcheck disable=SC2086
  need $build_tools $libraries $command_libraries "$@"
}

need_to_test() {
  # shellcheck disable=SC2086
  need_to_build $test_tools "$@"
}

need_to_cross_build() {
  # shellcheck disable=SC2086
  need $build_tools python3:python3 xz:xz-utils x86_64-w64-mingw32-g++-posix:g++-mingw-w64-x86-64-posix
}

# The one for 64 bits only. Distributions call its command wine or wine64.
need_wine() { have wine || have wine64 || need wine wine64; }

# need_to_emulate ARCH: sets $target and $emulator. x86-64 runs i386's programs itself, if it has their C library.
need_to_emulate() {
  own_libraries=
  case $1 in
    aarch64 | s390x | riscv64) target=$1-linux-gnu emulator=qemu-$1 ;;
    i386) target=i686-linux-gnu emulator=qemu-i386
      [ "$(uname -m)" != x86_64 ] || own_libraries='libc6-i386 lib32stdc++6' ;;
    armhf) target=arm-linux-gnueabihf emulator=qemu-arm ;;
    *) die "usage: ./dev qemu aarch64|s390x|i386|armhf|riscv64 [-DX=Y] [-R REGEX...]" ;;
  esac
  # shellcheck disable=SC2086
  need $build_tools python3:python3 "$target-g++:g++-$target" "$emulator:qemu-user" $own_libraries
}

# Adds the package of command:package[:version] to $missing, if apt-get has it, at least at that version.
wanted_if_there_is() {
  case $1 in
    *:*) ! have "${1%%:*}" || return 0 ;;
    *) [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" != installed ] || return 0 ;;
  esac
  have apt-get || return 0
  fetch_package_lists
  package=${1#*:}
  least=${package#*:}
  [ "$least" != "$package" ] || least=0
  package=${package%%:*}
  found=$(apt-cache madison "$package" 2>/dev/null | awk '{ print $3; exit }')
  if [ -n "$found" ] && dpkg --compare-versions "$found" ge "$least"; then
    missing="$missing $package"
  else
    say "there is no package $package here, or it is too old: what it is for is skipped"
  fi
}

# clang_tool NAME: sets $tool to the pinned version of it, or else to another that is new enough, installed if need be.
pinned_clang=14
newest_clang=30

clang_tool() {
  find_clang_tool "$1" && return
  say "no $1 of version $pinned_clang or newer is installed"
  may_install || die "./dev deps installs it"
  package=${1%++}
  if have apt-get; then
    fetch_package_lists
    [ -z "$(apt-cache madison "$package-$pinned_clang" 2>/dev/null)" ] || package=$package-$pinned_clang
  fi
  need "$package"
  find_clang_tool "$1" || die "$1 of version $pinned_clang or newer is needed"
}

find_clang_tool() {
  version=$pinned_clang
  while [ "$version" -le $newest_clang ]; do
    tool=$1-$version
    ! have "$tool" || return 0
    version=$((version + 1))
  done
  tool=$1
  have "$tool" && [ "$(clang_major)" -ge $pinned_clang ]
}

# The sanitizers and libFuzzer of $tool, which Debian packages separately.
need_clang_runtime() { ! have apt-get || need "libclang-rt-$(clang_major)-dev"; }

clang_major() { "$tool" --version | sed -n 's/.*version \([0-9]*\)\..*/\1/p' | head -n 1; }
