"""Runs the command on the corpus with run.py, and readers that run.py must find wrong.

SPDX-License-Identifier: Apache-2.0
"""
import collections
import csv
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

CORPUS = pathlib.Path(__file__).resolve().parent
COMMAND = [os.environ["ST_COMMAND"], "verify"]


def run(*arguments, corpus=CORPUS):
    done = subprocess.run([sys.executable, corpus / "run.py", *arguments], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.returncode, done.stdout.splitlines()


def summary(accepted, refused, crashed, files):
    counts = {"wrongly accepted": accepted, "wrongly refused": refused, "crashed": crashed}
    return [f"{what}: {count} of {files}" for what, count in counts.items()]


def verdicts(column, decided_by=("format", "reference")):
    """The number of accepted and of refused files in expected.tsv."""
    with open(CORPUS / "expected.tsv", newline="", encoding="utf-8") as table:
        rows = csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
        counts = collections.Counter(row[column] for row in rows if row["decided_by"] in decided_by)
    return counts["ok"], counts["err"]


FORMAT = verdicts("reference", ("format",))


class Run(unittest.TestCase):
    def test_the_command_makes_no_mistake(self):
        self.assertEqual(run(*COMMAND), (0, summary(0, 0, 0, sum(FORMAT))))
        self.assertEqual(run("--rules", "default", *COMMAND), (0, summary(0, 0, 0, 316)))
        self.assertEqual(run("--rules", "bintensors", *COMMAND), (0, summary(0, 0, 0, 23)))

    def test_a_reader_that_accepts_everything_is_wrong_on_every_invalid_file(self):
        self.assertEqual(run("true"), (1, summary(FORMAT[1], 0, 0, sum(FORMAT))))
        accepted, refused = verdicts("reference")
        self.assertEqual(run("--rules", "reference", "true"), (1, summary(refused, 0, 0, accepted + refused)))

    def test_a_reader_that_refuses_everything_is_wrong_on_every_valid_file(self):
        self.assertEqual(run("false"), (1, summary(0, FORMAT[0], 0, sum(FORMAT))))
        self.assertEqual(run("--rules", "bintensors", "false"), (1, summary(0, 8, 0, 23)))

    def test_a_crash_is_neither_verdict(self):
        for script in ("kill -SEGV $$", "exit 101"):
            self.assertEqual(run("--rules", "bintensors", "sh", "-c", script), (1, summary(0, 0, 23, 23)))

    def test_a_list_has_the_names_below_their_count(self):
        script = "case $0 in */bad_hole.bt) exit 0 ;; */all_dtypes.bt) kill -SEGV $$ ;; */bad_*) exit 1 ;; esac"
        accepted, refused, crashed = summary(1, 0, 1, 23)
        self.assertEqual(run("--list", "--rules", "bintensors", "sh", "-c", script),
                         (1, [accepted, "  bad_hole.bt", refused, crashed, "  all_dtypes.bt"]))

    def test_without_a_command_there_is_no_verdict(self):
        self.assertEqual(run(), (2, []))
        self.assertEqual(run("no-such-command"), (2, []))

    def test_every_file_has_a_row_and_every_row_a_basis(self):
        with open(CORPUS / "expected.tsv", newline="", encoding="utf-8") as table:
            rows = list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))
        self.assertEqual([row["file"] for row in rows], sorted(path.name for path in (CORPUS / "files").iterdir()))
        self.assertLessEqual({row["decided_by"] for row in rows}, {"format", "reference"})
        differs = [row["file"] for row in rows if row["default"] != row["reference"] and row["decided_by"] == "format"]
        self.assertEqual(differs, [])

    def test_the_corpus_works_without_the_repository(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "corpus"
            # as "git archive HEAD:tests/conformance" packs it, but with changes that are not committed
            listed = subprocess.run(["git", "-C", CORPUS, "ls-files", "-z"], capture_output=True)
            if listed.returncode != 0:
                self.skipTest("not a checkout of git")
            for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(CORPUS / name, copy / name)
            self.assertEqual(run("true", corpus=copy), (1, summary(FORMAT[1], 0, 0, sum(FORMAT))))
            self.assertEqual(run("--rules", "bintensors", *COMMAND, corpus=copy), (0, summary(0, 0, 0, 23)))


if __name__ == "__main__":
    unittest.main()
