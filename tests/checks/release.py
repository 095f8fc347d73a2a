"""./dev release --check refuses commits that are not releases, in a scratch repository with the scripts of this checkout.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = ("dev", "scripts", "include/safetensors/safetensors.h", "bindings/python/pyproject.toml")
GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
       **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "n"), ("EMAIL", "n@localhost"))}}
VERSION = ".".join(re.findall(r"define ST_VERSION_(?:MAJOR|MINOR|PATCH) +(\d+)", (ROOT / FILES[2]).read_text()))
RELEASED = f"## {VERSION} (2026-01-31)\n"


class Release(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        for name in FILES:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, self.folder / name)
        (self.folder / ".gitignore").write_text("__pycache__/\n")

    def git(self, *arguments):
        subprocess.run(["git", *arguments], cwd=self.folder, check=True, capture_output=True, env={**os.environ, **GIT})

    def commit(self, changelog=RELEASED):
        (self.folder / "CHANGELOG.md").write_text(f"# Changelog\n\n{changelog}\n- All.\n")
        if not (self.folder / ".git").exists():
            self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")

    def check(self, *options):
        done = subprocess.run(["./dev", "release", "--check", *options], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, **GIT, "GIT_CEILING_DIRECTORIES": str(self.folder.parent)})
        self.assertFalse((self.folder / "build").exists())
        return done.returncode, done.stderr

    def refused(self, *words, options=()):
        status, said = self.check(*options)
        self.assertEqual(status, 1, said)
        for word in words:
            self.assertIn(word, said)

    def accepted(self, *words, options=()):
        status, said = self.check(*options)
        self.assertEqual(status, 0, said)
        for word in words:
            self.assertIn(word, said)

    def test_a_released_version_of_a_clean_commit(self):
        self.commit()
        self.accepted(f"{VERSION} can be released from ")

    def test_a_changed_file(self):
        self.commit()
        (self.folder / "CHANGELOG.md").write_text(RELEASED)
        for options in ((), ("--rehearse",)):
            self.refused(" M CHANGELOG.md", "not committed", options=options)
        self.git("add", "CHANGELOG.md")
        self.refused("M  CHANGELOG.md", "not committed")

    def test_a_file_that_git_does_not_know(self):
        self.commit()
        (self.folder / "new.cpp").touch()
        self.refused("?? new.cpp", "not committed")

    def test_an_unreleased_version(self):
        self.commit(f"## {VERSION} (unreleased)\n")
        self.refused(f"'## {VERSION} (unreleased)'", "--rehearse")
        self.accepted("as a rehearsal", options=("--rehearse",))

    def test_a_version_without_a_date(self):
        for title in (f"## {VERSION}\n", f"## {VERSION} (soon)\n", f"## {VERSION} (2026-01-31) (unreleased)\n"):
            self.commit(title)
            self.refused("it is not released")

    def test_a_version_that_the_changelog_lacks(self):
        for title in ("## 99.0.0 (2026-01-31)\n", f"## {VERSION}1 (2026-01-31)\n", f"## {VERSION.replace('.', 'x')} (2026-01-31)\n"):
            self.commit(title)
            for options in ((), ("--rehearse",)):
                self.refused(f"no section '## {VERSION}'", options=options)

    def test_another_version_of_the_python_package(self):
        place = self.folder / "bindings/python/pyproject.toml"
        place.write_text(place.read_text().replace(f'version = "{VERSION}"', 'version = "99.0.0"'))
        self.commit()
        self.refused("pyproject.toml has another version")

    def test_a_tag_of_another_commit(self):
        self.commit()
        self.git("tag", "-a", "-m", "x", f"v{VERSION}")
        self.accepted("can be released")
        self.commit(RELEASED + "- More.\n")
        self.refused(f"the tag v{VERSION} is another commit")

    def test_no_checkout(self):
        (self.folder / "CHANGELOG.md").write_text(RELEASED)
        self.refused("no checkout of git")

    def test_an_unknown_option(self):
        self.commit()
        self.refused("usage: ./dev release", options=("--force",))

    def test_a_release_of_one_platform(self):
        self.commit()
        self.refused("all platforms", options=("linux",))
        self.accepted("as a rehearsal", options=("--rehearse", "linux"))


if __name__ == "__main__":
    if not shutil.which("git"):
        print("skipped: there is no git")
        sys.exit(77)
    unittest.main()
