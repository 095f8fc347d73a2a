# Prints what `./dev help` says, in two columns: the headings "#: HEADING" of ./dev, and below them its verbs, each from
# "verb_NAME() { #: [ARGUMENTS  ]DESCRIPTION".
# SPDX-License-Identifier: Apache-2.0
function in_column(text, words, count, line, i) {
  count = split(text, words, " ")
  for (i = 1; i <= count; ++i) {
    if (line != "" && length(line " " words[i]) > 82) {
      printf "%-16s%s\n", name, line
      name = line = ""
    }
    line = line (line == "" ? "" : " ") words[i]
  }
  printf "%-16s%s\n", name, line
  name = ""
}

/^#: / { print (headings++ ? "\n" : "") substr($0, 4) ":" }

/^verb_[a-z0-9]*\(\) \{ #: / {
  verb = substr($1, 6, length($1) - 7)
  text = substr($0, index($0, "#: ") + 3)
  arguments = index(text, "  ")
  name = "  " verb
  in_column(substr(text, arguments ? arguments + 2 : 1))
  if (arguments) in_column("./dev " verb " " substr(text, 1, arguments - 1))
}
