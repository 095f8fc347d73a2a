"""Prints a suppression of abidiff for each struct that has more members than in an older header.

With has_data_member_inserted_at = end, abidiff 2.2 reports no change of a struct at all, even if it has no new member. So
only structs that have grown are suppressed; checks.description compares their members.
usage: grown.py OLD_HEADER NEW_HEADER

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re
import sys


def counts(path):
    code = re.sub(r"/\*.*?\*/", "", pathlib.Path(path).read_text(), flags=re.DOTALL)
    return {name: body.count(";") for name, body in re.findall(r"^typedef struct (st_\w+) \{(.*?)^\}", code, re.MULTILINE | re.DOTALL)}


old, new = counts(sys.argv[1]), counts(sys.argv[2])
for name, count in old.items():
    if count < new.get(name, 0):
        print(f"[suppress_type]\n  type_kind = struct\n  name = {name}\n  has_data_member_inserted_at = end\n")
