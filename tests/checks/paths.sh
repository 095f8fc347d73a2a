#!/bin/sh
# No tracked file names a path of the machine that it was written on: the folder beside which the checkout stands, or a
# home folder.
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.." || exit 1
git rev-parse --is-inside-work-tree >/dev/null 2>&1 ||
  { echo "skipped: not a git checkout"; exit 77; }
beside=$(dirname "$PWD")
[ "$beside" != / ] || beside=$PWD
# a letter, a digit or a variable before it makes it the end of another path
! git grep -nIE -e "(^|[^A-Za-z0-9_.}-])($beside|/root|/home/[a-z]+|/Users/[A-Za-z]+)/" -- . ':!tests/checks/paths.sh'
