#!/usr/bin/env python3
"""Asks of each change to the sources whether a test notices it: ./dev mutants.

All mutants are built at once into one tree (mutate.py), so that trying one costs a run of tests and no compilation.
Each test first runs twice without a mutant, a slow one once: it must pass, and a trace says which mutants it reaches.
Each mutant then meets the tests that reach it until one fails: the quick ones first, those before the others that have
killed most of this file, then those that reach the fewest mutants (they look closest), then the slow ones. What no test
reaches has survived.
A test that takes several times as long as without the mutant is ended. What failed must pass again without the mutant.
Mutants may write to folders of their own only (confine.py), which needs root or a kernel with user namespaces.

    run.py [FILTER] [--count N] [--seed WORD] [--all] [--survivors] [--equivalents] [--build-only]

FILTER is a path prefix such as src/io: every mutant below it is tried, or a sample of them with --count. Without it a
sample of 600 is tried, with at least three mutants of every file; the same code and seed give the same sample.
--survivors tries those again that survived last. Those listed as equivalent (equivalent.tsv) would meet every test,
and are tried only with --equivalents, which tries no others: what a test kills is to be struck off the list.
build/mutants has the table of all (mutants.tsv), what became of
those tried (results.tsv), and a program to which ST_MUTANT=NUMBER gives one of them.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import confine  # noqa: E402
import mutate  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / 'build' / 'mutants'
TREE = WORK / 'tree'
BUILD = WORK / 'build'
FOLDERS = ('src', 'capi')
KINDS = ('unit', 'cost', 'devices', 'capi', 'abi', 'conformance', 'cli')
GOOGLE_TESTS = {'unit': 'st_tests', 'cost': 'st_cost', 'devices': 'devices/st_devices'}
LONG = {'cli.readme_test', 'cli.conformance'}  # start compilers and hundreds of commands, and meet nothing more
LEAST_PER_FILE = 3
SAMPLE = 600
QUICK_SECONDS = 0.3  # tests below this share a process
SHARED_SECONDS = (0.1, 0.4, 1.0)  # of the first process of a mutant, the second, and each that follows
SLOW_SECONDS = 5.0  # these are traced once


def say(*words):
    print(*words, file=sys.stderr, flush=True)


# ---- building ------------------------------------------------------------------------------------------------------

def is_compiled(path):
    """Not another system's file, nor one that Linux has its own of, nor what only a library with its own libstdc++ has."""
    linux = path.parent.parent / 'linux' / path.name
    return path.parent.name not in ('win32', 'static_runtime') and not (path.parent.name == 'posix' and linux.exists())


def find_mutants():
    resources = subprocess.run([os.environ.get('ST_CLANG', 'clang++'), '-print-resource-dir'], capture_output=True, text=True).stdout.strip()
    arguments = ['-x', 'c++', '-std=c++20', f'-I{ROOT}/src', f'-I{ROOT}/include', f'-I{ROOT}/capi', '-DST_BUILDING',
                 '-DXXH_INLINE_ALL', '-DFMT_HEADER_ONLY=1', '-DSIMDJSON_EXCEPTIONS=0', f'-resource-dir={resources}', '-w']
    finder = mutate.Finder(ROOT, FOLDERS, arguments)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob('*.cpp')):
            if is_compiled(path):
                finder.add_file(path.relative_to(ROOT).as_posix())
    mutate.number(finder)
    return finder


def copy_tree(mutated):
    """All that is not mutated; an unchanged file keeps its time, so that little is built anew."""
    TREE.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.split('\n')
    files = {name for name in listed if name and (ROOT / name).exists()}
    for name in files:
        source, target = ROOT / name, TREE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            if not target.is_symlink():
                target.symlink_to(os.readlink(source))
        elif source.is_file() and name not in mutated:
            if not target.exists() or target.read_bytes() != source.read_bytes():
                shutil.copy2(source, target)
    for path in TREE.rglob('*'):
        if path.is_file() and path.relative_to(TREE).as_posix() not in files:
            path.unlink()


def build(finder):
    """Builds the tree with all mutants; those on lines that the compiler refuses are left out."""
    copy_tree({m.file for m in finder.mutants})
    refused = WORK / 'refused.tsv'
    known = set(refused.read_text().splitlines()) if refused.exists() else set()
    without = {m.number for m in finder.mutants if m.key in known}
    mutate.write(finder, TREE, without)
    flags = f'-include {HERE}/mutant.hpp -w -fpermissive -Wno-narrowing'
    command = ['cmake', '-S', str(TREE), '-B', str(BUILD), '-G', 'Ninja', '--log-level=WARNING',
               '-DCMAKE_BUILD_TYPE=RelWithDebInfo', '-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1', f'-DCMAKE_CXX_FLAGS={flags}',
               '-DST_WERROR=OFF', '-DST_BUILD_BENCH=OFF', '-DST_BUILD_FUZZ=OFF', '-DCARGO=']
    if shutil.which('ccache'):
        command.append('-DCMAKE_CXX_COMPILER_LAUNCHER=ccache')
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for _ in range(12):
        mutate.write(finder, TREE, without)
        done = subprocess.run(['cmake', '--build', str(BUILD), '--', '-k', '0'], capture_output=True, text=True)
        if done.returncode == 0:
            return without
        lines = set()
        for text in done.stdout.splitlines():
            found = re.match(r'\S*?tree/(\S+?):(\d+):', text)  # ccache makes paths relative
            if found and (' error' in text or 'required from' in text or 'note:' in text):
                lines.add((found.group(1), int(found.group(2))))
        before = len(without)
        without |= {m.number for m in finder.mutants if (m.file, m.line) in lines}
        refused.write_text(''.join(m.key + '\n' for m in finder.mutants if m.number in without))
        say(f'mutants: {len(without)} of {len(finder.mutants)} do not compile')
        if len(without) == before:
            raise SystemExit(done.stdout[-6000:])
    raise SystemExit('the mutated sources do not build')


# ---- the tests -----------------------------------------------------------------------------------------------------

class Test:
    def __init__(self, kind, name, command, environment, folder):
        self.kind, self.name, self.command = kind, name, command
        self.environment, self.folder = environment, folder
        self.seconds = 0.0  # without a mutant
        self.reaches = b''
        self.width = 0  # how many mutants it reaches

    def is_quick(self):
        return self.kind in GOOGLE_TESTS and self.seconds < QUICK_SECONDS


def listed():
    shown = subprocess.run(['ctest', '--test-dir', str(BUILD), '--show-only=json-v1'], capture_output=True, text=True,
                           check=True)
    found = []
    for test in json.loads(shown.stdout)['tests']:
        kind = test['name'].split('.')[0]
        if kind not in KINDS or test['name'] in LONG or 'command' not in test:
            continue
        properties = {p['name']: p['value'] for p in test.get('properties', [])}
        environment = dict(e.split('=', 1) for e in properties.get('ENVIRONMENT', []))
        folder = properties.get('WORKING_DIRECTORY', str(BUILD))
        found.append(Test(kind, test['name'], test['command'], environment, folder))
    return found


def tests():
    """One entry per GoogleTest case and per program: what tracing tells apart."""
    found = [t for t in listed() if t.kind not in GOOGLE_TESTS]
    for kind, program in GOOGLE_TESTS.items():
        path, suite = BUILD / 'tests' / program, ''
        shown = subprocess.run([path, '--gtest_list_tests'], capture_output=True, text=True, check=True)
        for line in shown.stdout.splitlines():
            if not line.startswith(' '):
                suite = line.split()[0]
            else:
                name = suite + line.split()[0]
                found.append(Test(kind, name, [str(path), f'--gtest_filter={name}'], {}, str(path.parent)))
    return found


def expendable():
    """A mutant that eats the machine's memory is the first that the kernel ends. Some tests send signals."""
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        Path('/proc/self/oom_score_adj').write_text('1000')
    except OSError:
        pass


def run(command, environment, folder, seconds):
    """None when it passes or is skipped, else what went wrong. Everything it started is ended, its files removed."""
    with tempfile.TemporaryDirectory(prefix='st-mutant-', ignore_cleanup_errors=True) as scratch, \
            tempfile.TemporaryFile() as output:
        os.chmod(scratch, 0o755)  # some tests go on as another user
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   env={**os.environ, **environment, 'TMPDIR': scratch, 'TEST_TMPDIR': scratch + '/'},
                                   preexec_fn=expendable)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return 'does not end'
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        if status in (0, 77):
            return None
        output.seek(0)
        said = output.read().decode(errors='replace')
        names = re.findall(r'\[  FAILED  \] (\S+)', said)[:1] or re.findall(r'\[ RUN      \] (\S+)', said)[-1:]
        return ' '.join([*names, f'exits with {status}'])


def trace(found, count):
    """Without a mutant: a test that fails is left out, and what it reached in either run it reaches."""
    def one(test):
        passed, reached = True, 0
        for again in (False, True):
            if again and test.seconds > SLOW_SECONDS:
                break
            with tempfile.NamedTemporaryFile(prefix='st-trace-') as file:
                file.write(bytes(count))
                file.flush()
                started = time.monotonic()
                passed &= run(test.command, {**test.environment, 'ST_MUTANT_TRACE': file.name}, test.folder, 600) is None
                test.seconds = max(test.seconds, time.monotonic() - started)
                reached |= int.from_bytes(Path(file.name).read_bytes(), 'little')
        test.reaches = reached.to_bytes(count, 'little')
        test.width = sum(test.reaches)
        return test, passed
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = [test.name for test, passed in pool.map(one, found) if not passed]
    if failed:
        say('mutants: left out, since they fail without a mutant: ' + ', '.join(failed))
    found = [t for t in found if t.name not in failed]
    missing = set(KINDS) - {t.kind for t in found}
    if missing:
        raise SystemExit('mutants: no test passes of: ' + ', '.join(missing))
    return sorted(found, key=lambda t: t.seconds)


def rounds(reaching, kills):
    """(name, command, environment, folder, seconds) of each process: the quick ones together, the others alone."""
    for kind in GOOGLE_TESTS:
        together, total, shared = [], 0.0, 0
        quick = sorted((t for t in reaching if t.kind == kind and t.is_quick()), key=lambda t: (-kills[t.name], t.width))
        for i, test in enumerate(quick):
            together.append(test.name)
            total += test.seconds
            if total > SHARED_SECONDS[min(shared, 2)] or i + 1 == len(quick):
                command = [test.command[0], '--gtest_filter=' + ':'.join(together), '--gtest_fail_fast']
                yield kind, command, test.environment, test.folder, total
                together, total, shared = [], 0.0, shared + 1
    for test in reaching:
        if not test.is_quick():
            yield f'{test.kind} {test.name}', test.command, test.environment, test.folder, test.seconds


def killer(mutant, found, sure, kills):
    """The first test that notices, with what it says, or None. `sure`: what has passed again after it had failed.
    `kills`: by the name of a test, how many mutants of this file it has killed."""
    for name, command, environment, folder, seconds in rounds([t for t in found if t.reaches[mutant.number]], kills):
        active, limit = {**environment, 'ST_MUTANT': str(mutant.number)}, 5 + 5 * seconds
        wrong = run(command, active, folder, limit)
        if wrong is None:
            continue
        if (name, wrong) not in sure:
            if run(command, environment, folder, limit) is not None:  # the machine is busy, or the test is not to be trusted
                wrong = run(command, active, folder, 10 * limit)
                if wrong is None or run(command, environment, folder, 10 * limit) is not None:
                    say(f'mutants: {name} fails without a mutant, too')
                    continue
            sure.add((name, wrong))
        kills[wrong.split()[0]] += 1  # a case of GoogleTest
        return f'{name}: {wrong}'
    return None


# ---- the report ----------------------------------------------------------------------------------------------------

def equivalents():
    """Those that no test can notice: key -> reason. tests/mutation/equivalent.tsv"""
    listed = {}
    for line in (HERE / 'equivalent.tsv').read_text().splitlines()[1:]:
        fields = line.split('\t')
        listed['\t'.join(fields[:5])] = fields[5]
    return listed


def report(results, listed):
    """Prints what became of each folder's mutants, and those that survived."""
    rows = {}
    for mutant, by in results:
        folder = '/'.join(mutant.file.split('/')[:2]) if mutant.file.startswith('src/') else 'capi'
        row = rows.setdefault(folder, [0, 0, 0, 0])
        row[0] += 1
        row[1 if by else 2 if mutant.key in listed else 3] += 1
    print(f"{'folder':14}{'mutants':>9}{'killed':>9}{'equivalent':>12}{'survived':>10}{'killed of rest':>16}")
    total = [sum(r[i] for r in rows.values()) for i in range(4)]
    for folder, row in [*sorted(rows.items()), ('all', total)]:
        rest = row[0] - row[2]
        print(f'{folder:14}{row[0]:9}{row[1]:9}{row[2]:12}{row[3]:10}{100 * row[1] / max(rest, 1):15.1f}%')
    for mutant, by in results:
        if by and mutant.key in listed:
            print(f'STRIKE OFF equivalent.tsv {shown(mutant)}: {by}')
    survivors = [m for m, by in results if not by and m.key not in listed]
    for mutant in survivors:
        print(f'SURVIVED {shown(mutant)}')
    (WORK / 'survivors.tsv').write_text(''.join(m.key + '\n' for m in survivors))
    (WORK / 'results.tsv').write_text(''.join(f'{m.number}\t{m.line}\t{m.key}\t{by or "-"}\n' for m, by in results))


def shown(mutant):
    return f'{mutant.number} {mutant.file}:{mutant.line} {mutant.function}: {mutant.operator}: {mutant.text}'


def choose(mutants, options):
    if options.survivors:
        wanted = set((WORK / 'survivors.tsv').read_text().splitlines())
        return [m for m in mutants if m.key in wanted and m.file.startswith(options.filter)]
    mutants = [m for m in mutants if m.file.startswith(options.filter)]
    if options.equivalents:
        listed = equivalents()
        return [m for m in mutants if m.key in listed]
    if options.all or options.filter and not options.count:
        return mutants
    return mutate.sample(mutants, options.count or SAMPLE, LEAST_PER_FILE, options.seed)


def try_all(finder, without, options):
    say('mutants: running each test without one, to see what it reaches')
    found = trace(tests(), len(finder.mutants))
    chosen = choose([m for m in finder.mutants if m.number not in without], options)
    say(f'mutants: trying {len(chosen)} with {len(found)} tests')
    results, sure, kills = [], set(), {mutant.file: Counter() for mutant in chosen}
    listed = {} if options.equivalents else equivalents()

    def tried(mutant):
        return None if mutant.key in listed else killer(mutant, found, sure, kills[mutant.file])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, by in zip(chosen, pool.map(tried, chosen)):
            results.append((mutant, by))
            if not by and mutant.key not in listed:
                say(f'  {len(results)}/{len(chosen)} survived {shown(mutant)}')
            elif len(results) % 50 == 0:
                say(f'  {len(results)}/{len(chosen)}')
    report(results, equivalents())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('filter', nargs='?', default='')
    parser.add_argument('--count', type=int)
    parser.add_argument('--seed', default='')
    parser.add_argument('--all', action='store_true')
    parser.add_argument('--survivors', action='store_true')
    parser.add_argument('--equivalents', action='store_true')
    parser.add_argument('--build-only', action='store_true')
    options = parser.parse_args()

    WORK.mkdir(parents=True, exist_ok=True)
    if not options.build_only and confine.confined(lambda: None, WORK) != 0:  # better known now than after the building
        raise SystemExit(1)
    say('mutants: finding them')
    finder = find_mutants()
    say(f'mutants: building {len(finder.mutants)}')
    without = build(finder)
    (WORK / 'mutants.tsv').write_text(''.join(f'{m.number}\t{m.line}\t{m.key}\n' for m in finder.mutants))
    for key in equivalents().keys() - {m.key for m in finder.mutants}:
        say('mutants: no longer there, but listed as equivalent: ' + key)
    if options.build_only:
        return
    raise SystemExit(confine.confined(lambda: try_all(finder, without, options), WORK))


if __name__ == '__main__':
    main()
