"""What the reference answered, for machines that lack it: recorded/NAME.txt, one answer a line, in the order of the cases.

    NAME.py --record      asks the reference, and writes the table anew
    NAME.py --recorded    compares this library with the table, without the reference

The cases are not in the table: the same seed makes them again. The first line has a digest of them, so that a generator
that was changed since is noticed, and no answer is compared with another case's.
SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import pathlib
import sys

FOLDER = pathlib.Path(__file__).parents[1] / "recorded"


def digest(what, digits=8):
    data = what if isinstance(what, bytes) else repr(what).encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:digits]


def mode():
    """--record, --recorded, or "" for a comparison with the reference itself. Taken out of sys.argv."""
    given = [word for word in sys.argv[1:] if word in ("--record", "--recorded")]
    sys.argv = [word for word in sys.argv if word not in given]
    return given[0] if given else ""


class Recorded:
    """Answers out of the table. finish() fails where it has answers to more cases, or to others."""

    def __init__(self, name):
        self.path = FOLDER / f"{name}.txt"
        self.cases = hashlib.sha256()
        head, *self.answers = self.path.read_text().splitlines()
        self.expected = head.split()[-1]
        self.at = 0

    def answer(self, case, *_):
        self.cases.update(digest(case).encode())
        assert self.at < len(self.answers), f"{self.path.name} has no answer to case {self.at}"
        self.at += 1
        return self.answers[self.at - 1]

    def finish(self):
        same = self.at == len(self.answers) and self.cases.hexdigest()[:16] == self.expected
        assert same, f"{self.path.name} is of other cases, record it again (support/recorded.py)"


class Recorder:
    """Answers by ask(*question), which end up in the table."""

    def __init__(self, name, ask):
        self.path, self.ask = FOLDER / f"{name}.txt", ask
        self.cases, self.answers = hashlib.sha256(), []

    def answer(self, case, *question):
        self.cases.update(digest(case).encode())
        self.answers.append(self.ask(*question))
        return self.answers[-1]

    def finish(self):
        self.path.write_text("\n".join([f"cases {self.cases.hexdigest()[:16]}", *self.answers]) + "\n")
