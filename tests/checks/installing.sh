#!/bin/sh
# What ./dev says while it installs, for a user who needs sudo: how far it is, and apt-get's own words where it fails.
# And that only deps, demo and test install: every other job says what is missing. The checkout lies in a folder whose name
# holds a space, and the paths that cmake gets must be whole.
#
# The system's tools are stand-ins here. This sudo closes what descriptors sudo closes.
# SPDX-License-Identifier: Apache-2.0
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
folder="$temporary/a b"
mkdir -p "$folder/bin"
cp -r "$top/dev" "$top/scripts" "$folder/"

stand_in() { { echo '#!/bin/sh'; cat; } >"$folder/bin/$1" && chmod +x "$folder/bin/$1"; }
echo 'echo 1000' | stand_in id
echo 'exit 1' | stand_in dpkg-query
# shellcheck disable=SC2016  # expanded by the stand-in
echo 'exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; exec "$@"' | stand_in sudo
stand_in apt-get <<'END'
[ "$1" != update ] || exit 0
echo pmstatus:package:40.0:unpacking >&3
echo E: what went wrong
exit 100
END

! said=$(PATH=$folder/bin:$PATH sh "$folder/dev" demo 2>&1) || { echo "a failed installation goes on"; exit 1; }
for line in 'dev:   installing packages, 40 %' 'E: what went wrong'; do
  printf '%s\n' "$said" | grep -qxF "$line" || { printf 'no line "%s" in:\n%s\n' "$line" "$said"; exit 1; }
done

echo 'echo apt-get ran >&2' | stand_in apt-get
for job in abi asan bench consumers coverage fuzz mutants tidy tsan; do
  ! said=$(PATH=$folder/bin:$PATH sh "$folder/dev" $job 2>&1) || { echo "$job goes on without what it needs"; exit 1; }
  case $said in *'apt-get ran'*) printf '%s installs:\n%s\n' "$job" "$said"; exit 1 ;; esac
  case $said in *'dev: missing: '*./dev\ deps*) ;; *) printf '%s does not say what is missing:\n%s\n' "$job" "$said"; exit 1 ;; esac
done

for command in cmake ninja c++ pkg-config python3 wine zig x86_64-w64-mingw32-g++-posix s390x-linux-gnu-g++ qemu-s390x; do
  echo exit 0 | stand_in $command
done
# shellcheck disable=SC2016
echo 'printf "%s\n" "$@" >>"$(dirname "$0")/arguments"; exit 1' | stand_in cmake
mkdir -p "$folder/.deps/simdjson/singleheader"
touch "$folder/.deps/simdjson/singleheader/simdjson.cpp"
for library in fmtlib cli11 nlohmann-json3 googletest xxhash; do mkdir "$folder/.deps/$library"; done
mkdir -p "$folder/.deps/zig/bin"
printf '#!/bin/sh\necho zig\n' >"$folder/.deps/zig/bin/python"
chmod +x "$folder/.deps/zig/bin/python"
for job in windows 'qemu s390x' musl; do
  rm -f "$folder/bin/arguments"
  # shellcheck disable=SC2086  # the job's own argument
  ! said=$(PATH=$folder/bin:$PATH sh "$folder/dev" $job 2>&1) || { echo "$job goes on without cmake"; exit 1; }
  for argument in SIMDJSON=simdjson FMT=fmtlib CLI11=cli11 NLOHMANN_JSON=nlohmann-json3 GOOGLETEST=googletest XXHASH=xxhash; do
    line="-DFETCHCONTENT_SOURCE_DIR_${argument%=*}=$folder/.deps/${argument#*=}"
    grep -qxF -e "$line" "$folder/bin/arguments" || { printf '%s gives cmake no "%s":\n' "$job" "$line"; cat "$folder/bin/arguments"; exit 1; }
  done
done
