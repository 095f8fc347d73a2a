# The job coverage. Read by ./dev.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh

measure_coverage() {
  fetched_gcovr
  flags='--coverage -fprofile-update=atomic'  # or threads lose counts, which then fall below zero
  # shellcheck disable=SC2086
  build debug -Bbuild/coverage $tests_only "-DCMAKE_C_FLAGS=$flags" "-DCMAKE_CXX_FLAGS=$flags" "$(reference_python)"
  find "$folder" -name '*.gcda' -delete
  run_tests -E '^cost\.'  # which count what optimised code does
  coverage_tables
}

# A call that may throw is a branch to the compiler, and none of ours. cost has copies of the sources.
coverage_tables() {
  mkdir -p "$folder/report"
  "$gcovr" --root . --filter src/ --filter capi/ --exclude-directory '.*/st_cost\.dir.*' --merge-lines \
    --gcov-suspicious-hits-threshold 0 --gcov-ignore-errors=source_not_found \
    --exclude-throw-branches --exclude-unreachable-branches --csv "$folder/coverage.csv" \
    --html-details "$folder/report/index.html" "$folder"
  awk -F, '
    function row(name, lines, of_lines, branches, of_branches) {
      printf "%-36s %6d of %6d  %5.1f %%  %6d of %6d  %5.1f %%\n", name, lines, of_lines, 100 * lines / (of_lines + !of_lines),
        branches, of_branches, of_branches ? 100 * branches / of_branches : 100
    }
    NR == 1 { printf "%-36s %16s %17s\n", "", "lines", "branches"; next }
    {
      row($1, $3, $2, $6, $5)
      folder = $1; sub("/[^/]*$", "", folder)
      if (folder != folders[count]) folders[++count] = folder
      for (i = 2; i <= 6; ++i) { sum[folder, i] += $i; sum["all", i] += $i }
    }
    END {
      folders[++count] = "all"
      for (i = 1; i <= count; ++i) row(folders[i], sum[folders[i], 3], sum[folders[i], 2], sum[folders[i], 6], sum[folders[i], 5])
    }' "$folder/coverage.csv"
  say "line by line: $folder/report/index.html"
}
