#!/bin/sh
# What ./dev says while it installs, for a user who needs sudo: how far it is, and apt-get's own words where it fails.
# And that only deps, demo and test install: every other job says what is missing.
#
# The system's tools are stand-ins here. This sudo closes what descriptors sudo closes.
# SPDX-License-Identifier: Apache-2.0
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin"
cp "$top/dev" "$folder/"

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
