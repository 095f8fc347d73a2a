"""Tests the command's verdicts on the corpus, with the script that judges other implementations, and tests that script.

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import subprocess
import sys
import unittest

from sample import COMMAND

JUDGE = pathlib.Path(__file__).resolve().parents[1] / "conformance/judge.py"
FILES, REFUSED, BINTENSORS = 316, 214, 23


def judged(*arguments):
    done = subprocess.run([sys.executable, JUDGE, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines(), done.stderr


class Verdicts(unittest.TestCase):
    def test_the_command_has_no_differences(self):
        for rules, files in (("default", FILES), ("bintensors", BINTENSORS)):
            code, lines, _ = judged("--rules", rules, COMMAND, "show")
            self.assertEqual((code, lines), (0, [f"{files} files, 0 differences"]))

    def test_what_takes_everything_differs_by_all_that_is_refused(self):
        code, lines, _ = judged("true")
        self.assertEqual((code, lines[-1]), (1, f"{FILES} files, {REFUSED} differences"))
        self.assertIn("lead_bom.safetensors: expected err, got ok (leading U+FEFF (UTF-8 BOM) before {)", lines)

    def test_what_refuses_everything_differs_by_all_that_is_taken(self):
        code, lines, _ = judged("--rules", "bintensors", "false")
        self.assertEqual((code, len(lines)), (1, 9))
        self.assertIn("all_dtypes.bt: expected ok, got err (-)", lines)

    def test_a_crash_is_no_refusal(self):
        for script, what in (("kill -SEGV $$", "signal 11"), ("exit 101", "status 101")):
            code, lines, _ = judged("--rules", "bintensors", "sh", "-c", script)
            self.assertEqual((code, lines[-1]), (1, f"{BINTENSORS} files, {BINTENSORS} differences"))
            self.assertIn(f"bad_hole.bt: expected err, got crash: {what} (InvalidOffset)", lines)

    def test_the_number_of_tensors_counts_where_it_is_asked_for(self):
        code, lines, _ = judged("--tensors", "sh", "-c", f'"{COMMAND}" show "$0" >&2 || exit 1; echo 1')
        self.assertEqual(code, 1)
        self.assertIn("layout_two_ok.safetensors: expected 2 tensors, got 1 (two contiguous tensors)", lines)
        self.assertFalse([line for line in lines[:-1] if "tensors, got 1 (" not in line and "dtype_map_null" not in line])

    def test_a_call_that_makes_no_sense_is_no_verdict(self):
        self.assertEqual(judged()[0], 2)
        self.assertEqual(judged("no-such-command")[0], 2)


if __name__ == "__main__":
    unittest.main()
