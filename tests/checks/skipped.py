"""Says which tests of a run were skipped, whole or in part, and why.

ctest names only the tests that are skipped whole, and never their reason. Reads what `ctest --output-junit` wrote.
usage: skipped.py JUNIT

SPDX-License-Identifier: Apache-2.0
"""
import re
import sys
import xml.etree.ElementTree

PYTHON = re.compile(r"^(\w+) .*\.\.\. skipped ['\"](.*)['\"]$", re.M)
GOOGLE = re.compile(r"^\[ RUN +\] (\S+)\n(?:(?!\[ RUN).*\n)*?\S+:\d+: Skipped\n((?:(?!\[|\n).+\n)+)", re.M)
OURS = re.compile(r"^()skipped: (.*)$", re.M)


def reasons(case):
    output = (case.findtext("system-out") or "").replace("\r", "")
    found = [match for form in (PYTHON, GOOGLE, OURS) for match in form.findall(output)]
    if not found and case.find("skipped") is not None:
        found = [("", output.strip() or "it gives no reason")]
    return found


for case in xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testcase"):
    for part, reason in reasons(case):
        part = "" if case.get("name").endswith(part) else part  # a GoogleTest case is a test of its own
        print(f"skipped {case.get('name')}{' ' * bool(part)}{part}: {' '.join(reason.split())}")
