# Makes the archives, wheels and Debian packages of ./dev package. Read by ./dev.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh

# Uses Debian's compiler flags, without debug information: Debian puts it in a package of its own.
pack_debian() {
  maintainer="${DEBFULLNAME:-} <${DEBEMAIL:-}>"
  [ -n "${DEBEMAIL:-}" ] || maintainer=$(git log -1 --format='%an <%ae>')
  folder=build/package
  rm -rf "$folder"
  (
    export DEB_BUILD_MAINT_OPTIONS=hardening=+all
    for flags in CFLAGS CXXFLAGS LDFLAGS; do export "$flags=$(dpkg-buildflags --get $flags)"; done
    preprocessor=$(dpkg-buildflags --get CPPFLAGS)
    export CFLAGS="$CFLAGS -g0 $preprocessor" CXXFLAGS="$CXXFLAGS -g0 $preprocessor"
    # shellcheck disable=SC2086
    configure release -B$folder $library_only -DST_DEBIAN_FILES=ON -DCMAKE_INSTALL_PREFIX=/usr \
      -DCMAKE_VERBOSE_MAKEFILE=ON "-DST_MAINTAINER=$maintainer"
  )
  build_target all
  if have blhc; then
    { echo 'dpkg-buildpackage: info: source package libsafetensors'; cat "$folder/build.log"; } >"$folder/blhc.log"
    blhc "$folder/blhc.log"
  fi
  say "packing $folder for Debian"
  quietly "$folder/cpack.log" cpack -G DEB --config "$folder/CPackConfig.cmake" -B "$made"
  ! have lintian || lintian --allow-root --fail-on error "$made"/*.deb
}

# Installs the packages made by pack_debian and links programs with them. Meant for a temporary system (./dev fresh).
try_debian() {
  # shellcheck disable=SC2086
  need $build_tools
  $as_root apt-get install -qy --no-install-recommends "$top"/build/packages/*.deb >/dev/null
  work=$top/build/package/installed
  mkdir -p "$work"
  # libsimdjson-dev has no archive, so a program with our archive still needs the shared simdjson.
  for library in -lsafetensors -l:libsafetensors.a; do
    # shellcheck disable=SC2046
    cc -O2 tests/consumers/demo/make_gpt2.c $(pkg-config --cflags --libs --static safetensors | sed "s/-lsafetensors/$library/") \
      -o "$work/make_gpt2"
    "$work/make_gpt2" "$work/gpt2.safetensors"
  done
  safetensors verify "$work/gpt2.safetensors"
  cmp bindings/safetensors.json "$(pkg-config --variable=json safetensors)"
}

# pack_platform LIBRARY TAG: an archive of what $folder has, and a wheel with the archive's library; the tag is the wheel's.
pack_platform() {
  say "packing $folder for $2"
  quietly "$folder/cpack.log" cpack -G TGZ --config "$folder/CPackConfig.cmake" -B "$made" \
    -D "CPACK_PACKAGE_FILE_NAME=libsafetensors-$2" -D 'CPACK_COMPONENTS_ALL=library;development'
  rm -rf "$folder/unpacked"
  mkdir "$folder/unpacked"
  tar xzf "$made/libsafetensors-$2.tar.gz" -C "$folder/unpacked" --strip-components=1
  make_wheel "$made" "$folder/unpacked/$1" "$2"
  python3 tests/checks/package.py "$made/libsafetensors-$2.tar.gz" "$made"/safetensors_c-*-"$2.whl" "$2"
}

# pack_by_zig TARGET LIBRARY TAG
pack_by_zig() {
  # shellcheck disable=SC2086
  build_by_zig "$1" "-Bbuild/zig-$1" $library_only -DST_BUILD_CLI=OFF
  pack_platform "$2" "$3"
}

# The oldest glibc whose symbols are enough for a library, as wheels are named for it.
manylinux() {
  objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1 |
    sed "s/GLIBC_\([0-9]*\)\.\([0-9]*\).*/manylinux_\1_\2_$(uname -m)/"
}

make_packages() {
  need_to_build python3:python3 python3-venv dpkg-deb:dpkg dpkg-buildflags:dpkg-dev git:git
  python_for_tests
  made=$top/build/packages
  [ $# -gt 0 ] || set -- debian linux windows musl macos aarch64
  for platform in "$@"; do
    case $platform in
      debian | linux | windows | musl | macos | aarch64) ;;
      installed) [ $# = 1 ] || die "installed stands alone"; try_debian; return ;;
      *) die "usage: ./dev package [debian] [linux] [windows] [musl] [macos] [aarch64], or: ./dev package installed" ;;
    esac
  done
  rm -rf "$made"
  mkdir -p "$made"
  for platform in "$@"; do
    case $platform in
      debian) pack_debian ;;
      linux)
        # shellcheck disable=SC2086
        build self-contained -Bbuild/archive $library_only -DST_BUILD_CLI=OFF
        pack_platform lib/libsafetensors.so "$(manylinux "$folder/libsafetensors.so")" ;;
      windows)
        need_to_cross_build
        # shellcheck disable=SC2086
        build_for_others windows -Bbuild/archive-windows $library_only -DST_BUILD_CLI=OFF
        pack_platform bin/safetensors.dll win_amd64 ;;
      musl)
        pack_by_zig x86_64-linux-musl lib/libsafetensors.so musllinux_1_2_x86_64
        pack_by_zig aarch64-linux-musl lib/libsafetensors.so musllinux_1_2_aarch64 ;;
      macos)
        pack_by_zig aarch64-macos.11.0 lib/libsafetensors.dylib macosx_11_0_arm64
        pack_by_zig x86_64-macos.11.0 lib/libsafetensors.dylib macosx_11_0_x86_64 ;;
      aarch64) pack_by_zig aarch64-linux-gnu.2.28 lib/libsafetensors.so manylinux_2_28_aarch64 ;;
    esac
  done
  rm -rf "$made/_CPack_Packages"
  (cd "$made" && ls -l)
}
