# The job release: everything that a version consists of, from one clean commit. Read by ./dev.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh

release_usage='usage: ./dev release [--check] [--rehearse [PLATFORM...]], or: ./dev release --twice [PLATFORM...]'

make_release() {
  rehearsal='' only_check=''
  while :; do
    case ${1:-} in
      --rehearse) rehearsal=-rehearsal ;;
      --check) only_check=1 ;;
      --twice) shift; python3 tests/checks/twice.py "$@"; return ;;
      -*) die "$release_usage" ;;
      *) break ;;
    esac
    shift
  done
  [ $# = 0 ] || [ -n "$rehearsal" ] || die "a release has the packages of all platforms: $release_usage"
  need git:git
  version=$(own_version)
  commit=$(git rev-parse -q --verify HEAD) || die "a release is made from a commit, and this is no checkout of git"
  check_clean
  check_version
  [ -z "$only_check" ] || { say "$version can be released${rehearsal:+ as a rehearsal} from $commit"; return 0; }

  out=build/releases/$version$rehearsal
  rm -rf "$out"
  mkdir -p "$out"
  say "$version${rehearsal:+, a rehearsal,} from $commit"
  # A clone, in which no earlier build has left its options. The caller's flags stay outside, too.
  tree=build/releases/tree
  rm -rf "$tree"
  git clone -q --no-checkout . "$tree"
  git -C "$tree" checkout -q --detach "$commit"
  ln -s "$deps" "$tree/.deps"
  (cd "$tree" && env -u CFLAGS -u CXXFLAGS -u CPPFLAGS -u LDFLAGS -u SOURCE_DATE_EPOCH ./dev package "$@")
  mv "$tree"/build/packages/* "$out"
  rm -rf "$tree"
  [ -z "$rehearsal" ] ||
    echo "Nothing here is a release: this is a rehearsal of $version, made from $commit." >"$out/NOT-A-RELEASE.txt"
  (cd "$out" && LC_ALL=C && export LC_ALL && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
  if [ -n "$rehearsal" ]; then
    say "REHEARSAL: nothing in $out is a release"
  else
    say "$version is in $out; what is left: git tag v$version $commit"
  fi
}

# Files that git does not know would be missing in what others build from the commit.
check_clean() {
  changes=$(git status --porcelain --untracked-files=normal)
  [ -z "$changes" ] || { printf '%s\n' "$changes" >&2; die "these changes are not committed: a release is made from a commit"; }
}

# The version of the header is a section of CHANGELOG.md that has a date, is that of the Python package, and names no other
# commit. A rehearsal needs the section, and no date.
check_version() {
  title=$(grep -E "^## $(printf %s "$version" | sed 's/\./\\./g')( |\$)" CHANGELOG.md) || die "CHANGELOG.md has no section '## $version'"
  printf '%s\n' "$title" | grep -qxE "## $version \([0-9]{4}-[0-9]{2}-[0-9]{2}\)" || [ -n "$rehearsal" ] ||
    die "CHANGELOG.md says '$title' instead of '## $version (YYYY-MM-DD)': it is not released (--rehearse makes all but a release)"
  grep -qxF "version = \"$version\"" bindings/python/pyproject.toml ||
    die "bindings/python/pyproject.toml has another version than safetensors.h: $version"
  tagged=$(git rev-parse -q --verify "refs/tags/v$version^{commit}") || return 0
  [ "$tagged" = "$commit" ] || die "the tag v$version is another commit: $tagged"
}
