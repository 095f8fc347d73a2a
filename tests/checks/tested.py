"""Every source has a test of its name, or a row in docs/testing.md that names the tests which reach it.

A row's first column holds sources in backticks: `LAYER/NAME`, then `NAME` for others of that layer; folders below a layer
do not count, `FOLDER/*` stands for all sources of one.

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENT = ROOT / "docs/testing.md"


def sources():
    for path in (ROOT / "src").rglob("*.[ch]pp"):
        layer, *folders, name = path.relative_to(ROOT / "src").with_suffix("").parts
        yield layer, (folders or [""])[-1], name


def has_own_test(layer, name):
    return any((ROOT / "tests" / layer).rglob(f"{name}_test.cpp"))


def listed():
    """(layer, folder or '', name or '*') of each source in the first columns, and the tests in the second ones."""
    layer = folder = ""
    for row in re.findall(r"^\| (`.*?) \| (`.*) \|$", DOCUMENT.read_text(), re.MULTILINE):
        for entry in re.findall(r"`([^`]+)`", row[0]):
            *place, name = entry.split("/")
            if place:
                layer, folder = place[0], place[-1] if len(place) > 1 else ""
            yield (layer, folder, name), re.findall(r"`([^`]+)`", row[1])


def is_named(source, entry):
    layer, folder, name = source
    return layer == entry[0] and (name == entry[2] or entry[2] == "*" and folder == entry[1])


def faults():
    every = sorted(set(sources()))
    rows = list(listed())
    for source in every:
        if not has_own_test(source[0], source[2]) and not any(is_named(source, entry) for entry, _ in rows):
            yield f"src/{'/'.join(filter(None, source))} has neither a test of its name nor a row"
    for entry, tests in rows:
        if not any(is_named(source, entry) for source in every):
            yield f"there is no src/{'/'.join(filter(None, entry))}"
        if entry[2] != "*" and has_own_test(entry[0], entry[2]):
            yield f"src/{'/'.join(filter(None, entry))} has a test of its name"
        for test in tests:
            place = ROOT / "tests" / test
            if "/" in test and not place.with_suffix(".cpp").exists():
                yield f"there is no tests/{test}.cpp"


found = sorted(set(faults()))
for fault in found:
    print(f"{DOCUMENT.name}: {fault}")
print(f"{len(set(sources()))} sources, {len(found)} faults")
sys.exit(bool(found))
