"""Counts the tests of a run by outcome and lists the skipped ones, grouped by reason.

ctest does not print the reasons, and lists only tests skipped as a whole. A test of ctest may be a program with many
tests: the tests skipped inside it are counted as parts. Reads the output of `ctest --output-junit`.
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
    """Returns pairs (skipped part, reason). The part is empty if the whole test was skipped."""
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
