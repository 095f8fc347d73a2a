# Makes the archives, wheels and Debian packages of ./dev package. Read by ./dev.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh

# Makes packages independent of the current time, and of the caller's locale, time zone and umask.
fix_environment() {
  umask 022
  [ -n "${SOURCE_DATE_EPOCH:-}" ] || SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) ||
    die "without git, set SOURCE_DATE_EPOCH to the time that the packages state"
  export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC0
}

own_version() {
  sed -n 's/^#define ST_VERSION_\(MAJOR\|MINOR\|PATCH\) *//p' include/safetensors/safetensors.h | paste -sd.
}

# pack_tar FOLDER NAME ARCHIVE: the directory NAME of FOLDER
pack_tar() {
  tar -C "$1" --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" \
    -cf - "$2" | gzip -9n >"$3"
}

# The sources as archive, the two files to copy, and the sdist of bindings/python: all of the last commit.
pack_sources() {
  say "packing the sources"
  name=libsafetensors-$(own_version) folder=build/sources
  rm -rf "$folder"
  mkdir -p "$folder/tree" "$folder/sdist"
  copies='contains:simdjson=pinned contains:fmt=pinned contains:xxHash=pinned'  # amalgamate.py rejects other versions
  git -c tar.umask=0022 archive --format=tar --prefix="$name/" HEAD | gzip -9n >"$made/$name.tar.gz"
  python3 scripts/bom.py "$made/$name.spdx.json" libsafetensors-sources \
    needs:simdjson=pinned needs:fmt=pinned needs:xxHash=pinned needs:CLI11=pinned needs:nlohmann_json=pinned
  tar xzf "$made/$name.tar.gz" -C "$folder/tree" --strip-components=1
  ln -s "$deps" "$folder/tree/.deps"

  copied=$name-single
  amalgamate "$folder/tree" "$folder/$copied"
  # shellcheck disable=SC2086
  python3 scripts/bom.py "$folder/$copied/safetensors.spdx.json" libsafetensors-single $copies
  pack_tar "$folder" "$copied" "$made/$copied.tar.gz"

  # shellcheck disable=SC2086
  python3 scripts/bom.py "$folder/sdist.spdx.json" safetensors-c-sdist $copies
  (cd "$folder/tree/bindings/python" &&
    SAFETENSORS_C_BOM=$top/$folder/sdist.spdx.json "$python" setup.py -q sdist --formats=tar -d "$top/$folder/sdist")
  pack_sdist "$folder/sdist" "$made"
}

# pack_sdist FOLDER OUT: packs the .tar of setuptools in FOLDER, which has times and owners of the build.
pack_sdist() {
  tar xf "$1"/*.tar -C "$1"
  rm "$1"/*.tar
  sdist=$(basename "$1"/*)
  pack_tar "$1" "$sdist" "$2/$sdist.tar.gz"
}

# Uses Debian's compiler flags, without debug information: Debian puts it in a package of its own.
pack_debian() {
  maintainer="${DEBFULLNAME:-} <${DEBEMAIL:-}>"
  [ -n "${DEBEMAIL:-}" ] || maintainer=$(git log -1 --format='%an <%ae>')
  folder=build/package
  rm -rf "$folder"
  (
    export DEB_BUILD_MAINT_OPTIONS='hardening=+all reproducible=-fixfilepath,-fixdebugpath'  # cmake/reproducible.cmake does that
    for flags in CFLAGS CXXFLAGS LDFLAGS; do export "$flags=$(dpkg-buildflags --get $flags)"; done
    preprocessor=$(dpkg-buildflags --get CPPFLAGS)
    export CFLAGS="$CFLAGS -g0 $preprocessor" CXXFLAGS="$CXXFLAGS -g0 $preprocessor"
    # shellcheck disable=SC2086
    configure release -B$folder $library_only -DST_DEBIAN_FILES=ON -DST_BOM=ON -DCMAKE_INSTALL_PREFIX=/usr \
      -DCMAKE_VERBOSE_MAKEFILE=ON "-DST_MAINTAINER=$maintainer"
  )
  build_target all
  commands=$(grep -E "^\[[0-9]+/[0-9]+\] .* -c .+\.(cpp|cxx|c)'?\$" "$folder/build.log") || die "build.log has no compiler commands"
  ! echo "$commands" | grep -vq -- '-D_FORTIFY_SOURCE=[23]' || die "some sources were compiled without _FORTIFY_SOURCE"
  if have blhc; then
    { echo 'dpkg-buildpackage: info: source package libsafetensors'; cat "$folder/build.log"; } >"$folder/blhc.log"
    blhc "$folder/blhc.log"
  fi
  say "packing $folder for Debian"
  quietly "$folder/cpack.log" cpack -G DEB --config "$folder/CPackConfig.cmake" -B "$made"
  for package in "$made"/*.deb; do dpkg-deb -x "$package" "$folder/unpacked"; done
  ! have lintian || lintian --allow-root --fail-on warning "$made"/*.deb
  documents=$folder/unpacked/usr/share/doc library=$(echo "$folder"/unpacked/usr/lib/*/libsafetensors.so.*.*)
  command=$folder/unpacked/usr/bin/safetensors
  "$python" tests/checks/hardening.py --debian "$library" "$command"
  "$python" tests/checks/bom.py "$documents"/libsafetensors-c0/libsafetensors-c0.spdx.json "$library"
  "$python" tests/checks/bom.py "$documents"/safetensors-tools/safetensors-tools.spdx.json "$command"
  "$python" tests/checks/bom.py "$documents"/libsafetensors-c-dev/libsafetensors-c-dev.spdx.json
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
  name=libsafetensors-$(own_version)-$2
  rm -rf "$folder/packed"
  for component in library development; do
    cmake --install "$folder" --prefix "$folder/packed/$name" --strip --component $component >"$folder/install-$component.log"
  done
  pack_tar "$folder/packed" "$name" "$made/$name.tar.gz"
  SAFETENSORS_C_BOM=$top/$folder/packed/$name/share/doc/safetensors/libsafetensors.spdx.json
  export SAFETENSORS_C_BOM
  make_wheel "$made" "$folder/packed/$name/$1" "$2"
  unset SAFETENSORS_C_BOM
  "$python" tests/checks/package.py "$made/$name.tar.gz" "$made"/safetensors_c-*-"$2.whl" "$2"
}

# pack_by_zig TARGET LIBRARY TAG
pack_by_zig() {
  # shellcheck disable=SC2086
  build_by_zig "$1" "-Bbuild/zig-$1" $library_only $archive_options
  pack_platform "$2" "$3"
}

# The oldest glibc whose symbols are enough for a library, as wheels are named for it.
manylinux() {
  objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1 |
    sed "s/GLIBC_\([0-9]*\)\.\([0-9]*\).*/manylinux_\1_\2_$(uname -m)/"
}

archive_options='-DST_BUILD_CLI=OFF -DST_BOM=ON -DST_HARDEN=ON'

make_packages() {
  need_to_build python3:python3 python3-venv dpkg-deb:dpkg dpkg-buildflags:dpkg-dev git:git
  python_for_tests
  fix_environment
  made=$top/build/packages
  [ $# -gt 0 ] || set -- sources debian linux windows musl macos aarch64
  for platform in "$@"; do
    case $platform in
      sources | debian | linux | windows | musl | macos | aarch64) ;;
      installed) [ $# = 1 ] || die "installed stands alone"; try_debian; return ;;
      *) die "usage: ./dev package [sources] [debian] [linux] [windows] [musl] [macos] [aarch64], or: ./dev package installed" ;;
    esac
  done
  rm -rf "$made"
  mkdir -p "$made"
  for platform in "$@"; do
    case $platform in
      sources) pack_sources ;;
      debian) pack_debian ;;
      linux)
        # shellcheck disable=SC2086
        build_for_others self-contained -Bbuild/archive $library_only $archive_options
        pack_platform lib/libsafetensors.so "$(manylinux "$folder/libsafetensors.so")" ;;
      windows)
        need_to_cross_build
        # shellcheck disable=SC2086
        build_for_others windows -Bbuild/archive-windows $library_only $archive_options
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
