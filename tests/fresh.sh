#!/bin/sh
# The README's two commands as a new user's first, each in a minimal system and a clean clone of what is committed.
#
# The system is made with debootstrap in build/fresh/SUITE, anew every time from an archive that is kept beside it. It
# reaches packages the way this machine does: mirror, proxy and certificates are taken from here. Its mounts are in a
# namespace of their own, so that they end with it.
# usage: [FRESH_PACKAGES=ccache] [FRESH_JOBS="demo,package debian"] fresh.sh SUITE [MIRROR]
#   The mirror has to be given for a suite of another distribution. FRESH_PACKAGES are installed beforehand; with ccache
#   among them a further attempt is quicker, its cache being kept. FRESH_JOBS: demo and test if not given.
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/.."

die() { echo "fresh: $*" >&2; exit 1; }
[ $# -ge 1 ] || die "which suite? bookworm, trixie, sid, ..."
[ "$(id -u)" = 0 ] || die "debootstrap and chroot want root"
suite=$1
mirror=${2:-$(apt-get update --print-uris | sed -n "s,^'\(.*\)/dists/.*,\1,p" | head -n 1)}
system=$PWD/build/fresh/$suite
base=$system.tar

bootstrap() {
  [ ! -f "$base" ] || return 0
  echo "fresh: making a minimal $suite from $mirror"
  rm -rf "$system"
  mkdir -p "$system"
  case $mirror in
    *ubuntu*) set -- --components=main,universe "$suite" "$system" "$mirror" gutsy ;;  # the script of all its suites
    *) set -- "$suite" "$system" "$mirror" ;;
  esac
  debootstrap --variant=minbase "$@" >"$system.log" || { tail -n 5 "$system.log" >&2; die "no $suite from $mirror"; }
  tar -C "$system" -cf "$base.part" .
  mv "$base.part" "$base"
}

unpack() {
  rm -rf --one-file-system "$system"
  mkdir -p "$system"
  tar -C "$system" -xf "$base"
  cp -L /etc/resolv.conf /etc/hosts "$system/etc/"
  apt-config dump | grep -E '^Acquire::(https?(::| )|Check-|Retries)' >"$system/etc/apt/apt.conf.d/90host" || true
  [ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$system/etc/"
  [ ! -f "${PIP_CERT:-}" ] || cp "$PIP_CERT" "$system/etc/host-certificates.pem"
  mkdir -p "$system.ccache" "$system/root/.cache/ccache"
  git clone -q --no-hardlinks . "$system/root/libsafetensors"
}

inside() {
  set -- "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" HOME=/root "$@"
  for name in http_proxy https_proxy no_proxy PIP_INDEX_URL PIP_EXTRA_INDEX_URL; do
    eval "value=\${$name:-}"
    [ -z "$value" ] || set -- "$name=$value" "$@"
  done
  [ ! -f "$system/etc/host-certificates.pem" ] || set -- PIP_CERT=/etc/host-certificates.pem "$@"
  # shellcheck disable=SC2016  # expanded by the inner shell
  unshare --mount --pid --fork --kill-child sh -euc '
    mount -t proc proc "$0/proc"
    mount -t tmpfs tmpfs "$0/dev/shm"
    mkdir -p "$0/dev/pts"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$0/dev/pts"
    ln -sf pts/ptmx "$0/dev/ptmx"
    mount --bind "$0.ccache" "$0/root/.cache/ccache"
    exec chroot "$0" env -i "$@"' "$system" "$@"
}

bootstrap
unpack
if [ -n "${FRESH_PACKAGES:-}" ]; then
  inside sh -c "apt-get update -q && apt-get install -qy --no-install-recommends $FRESH_PACKAGES" >"$system.log"
fi
failed=0
IFS=,
for verb in ${FRESH_JOBS:-demo,test}; do
  echo "fresh: ./dev $verb in $suite"
  log=$system-$(echo "$verb" | tr ' ' -).log
  { inside sh -c "cd ~/libsafetensors && ./dev $verb" </dev/null 2>&1 && echo "fresh: $verb passed"; } | tee "$log"
  if ! tail -n 1 "$log" | grep -qx "fresh: $verb passed"; then
    echo "fresh: ./dev $verb FAILED in $suite, see $log"
    failed=1
  fi
done
exit $failed
