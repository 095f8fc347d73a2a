"""Counts the tests of a run by their outcome, and says what was skipped and why, each reason once.

ctest names only the tests that are skipped whole, and never their reason. This reads what `ctest --output-junit` wrote.
A test of ctest may be a program with many tests of its own: those that it skipped are counted as parts.
usage: tally.py JUNIT

SPDX-License-Identifier: Apache-2.0
"""
import collections
import re
import sys
import xml.etree.ElementTree

PYTHON = re.compile(r"^(\w+) .*\.\.\. skipped ['\"](.*)['\"]$", re.M)
GOOGLE = re.compile(r"^\[ RUN +\] (\S+)\n(?:(?!\[ RUN).*\n)*?\S+:\d+: Skipped\n((?:(?!\[|\n).+\n)+)", re.M)
OURS = re.compile(r"^()skipped: (.*)$", re.M)


def reasons(case):
    """Returns a list of pairs: the part that was skipped, which is empty for the whole test, and the reason."""
    output = (case.findtext("system-out") or "").replace("\r", "")
    found = [match for form in (PYTHON, GOOGLE, OURS) for match in form.findall(output)]
    if not found and case.get("status") == "notrun":
        found = [("", output.strip() or "it gives no reason")]
    return [(part, " ".join(reason.removeprefix("SKIPPED: ").split())) for part, reason in found]


def tally(junit):
    outcomes, parts, skipped = collections.Counter(), 0, collections.defaultdict(collections.Counter)
    for case in xml.etree.ElementTree.parse(junit).getroot().iter("testcase"):
        outcomes[case.get("status")] += 1
        for _, reason in reasons(case):
            skipped[reason][case.get("name")] += 1
            parts += case.get("status") != "notrun"
    lines = []
    for reason, tests in sorted(skipped.items(), key=lambda item: -item[1].total()):
        named = ", ".join(name + (f" ({count} parts)" if count > 1 else "") for name, count in sorted(tests.items()))
        lines.append(f"skipped: {reason}: {named}")
    last = f"{outcomes['run']} passed, {outcomes['fail']} failed, {outcomes['notrun']} skipped"
    if parts:
        last += f" and {parts} parts of others"
    if skipped:
        last += ": " + "; ".join(f"{reason} ({tests.total()})" for reason, tests in skipped.items())
    return [*lines, last]


if __name__ == "__main__":
    print(*tally(sys.argv[1]), sep="\n")
