#!/usr/bin/env python3
"""Asks of each change to the sources whether a test notices it: ./dev mutants.

All mutants are built at once into one tree (mutate.py), so that trying one costs a run of tests and no compilation. A
first run with tracing says which tests reach which mutant; then each mutant meets those tests alone, the unit tests
first, then the C API, the conformance files and the command, until one fails. What no test reaches has survived.

    run.py [FILTER] [--count N] [--all] [--survivors] [--build-only]

FILTER is a path prefix such as src/io: every mutant below it is tried. Without it a sample of N (600) is tried, the
same one for the same code, with at least three mutants of every file. --survivors tries those again that survived last.
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import mutate  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / 'build' / 'mutants'
TREE = WORK / 'tree'
BUILD = WORK / 'build'
FOLDERS = ('src', 'capi')
KINDS = ('unit', 'capi', 'conformance', 'cli')
LEAST_PER_FILE = 3
MOST_SECONDS = 60


def say(*words):
    print(*words, file=sys.stderr, flush=True)


# ---- building ------------------------------------------------------------------------------------------------------

def find_mutants():
    resources = subprocess.run([os.environ.get('ST_CLANG', 'clang++'), '-print-resource-dir'], capture_output=True, text=True).stdout.strip()
    arguments = ['-x', 'c++', '-std=c++20', f'-I{ROOT}/src', f'-I{ROOT}/include', f'-I{ROOT}/capi', '-DST_BUILDING',
                 '-DXXH_INLINE_ALL', '-DFMT_HEADER_ONLY=1', '-DSIMDJSON_EXCEPTIONS=0', f'-resource-dir={resources}', '-w']
    finder = mutate.Finder(ROOT, FOLDERS, arguments)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob('*.cpp')):
            if 'win32' not in path.as_posix():
                finder.add_file(path.relative_to(ROOT).as_posix())
    mutate.number(finder)
    return finder


def copy_tree(mutated):
    """All that is not mutated; an unchanged file keeps its time, so that little is built anew."""
    TREE.mkdir(parents=True, exist_ok=True)
    files = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'], cwd=ROOT, capture_output=True, text=True,
                           check=True).stdout.split('\n')
    for name in filter(None, files):
        source, target = ROOT / name, TREE / name
        if not source.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            if not target.is_symlink():
                target.symlink_to(os.readlink(source))
        elif source.is_file() and name not in mutated:
            if not target.exists() or target.read_bytes() != source.read_bytes():
                shutil.copy2(source, target)


def build(finder):
    """Builds the tree with all mutants; those on lines that the compiler refuses are left out."""
    copy_tree({m.file for m in finder.mutants})
    flags = f'-include {HERE}/mutant.hpp -w -fpermissive -Wno-narrowing'
    command = ['cmake', '-S', str(TREE), '-B', str(BUILD), '-G', 'Ninja', '--log-level=WARNING',
               '-DCMAKE_BUILD_TYPE=RelWithDebInfo', '-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1', f'-DCMAKE_CXX_FLAGS={flags}',
               '-DST_WERROR=OFF', '-DST_BUILD_BENCH=OFF', '-DST_BUILD_FUZZ=OFF', '-DCARGO=']
    if shutil.which('ccache'):
        command.append('-DCMAKE_CXX_COMPILER_LAUNCHER=ccache')
    mutate.write(finder, TREE, without := set())
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    programs = sorted({Path(test.command[0]).name for test in listed() if Path(test.command[0]).is_relative_to(BUILD)})
    for _ in range(12):
        mutate.write(finder, TREE, without)
        done = subprocess.run(['cmake', '--build', str(BUILD), '--target', 'safetensors_cli', *programs, '--', '-k', '0'],
                              capture_output=True, text=True)
        if done.returncode == 0:
            return without
        lines = set()
        for text in done.stdout.splitlines():
            found = re.match(r'\S*?tree/(\S+?):(\d+):', text)  # ccache makes paths relative
            if found and (' error' in text or 'required from' in text or 'note:' in text):
                lines.add((found.group(1), int(found.group(2))))
        before = len(without)
        without |= {m.number for m in finder.mutants if (m.file, m.line) in lines}
        say(f'mutants: {len(without)} of {len(finder.mutants)} do not compile')
        if len(without) == before:
            raise SystemExit(done.stdout[-6000:])
    raise SystemExit('the mutated sources do not build')


# ---- the tests -----------------------------------------------------------------------------------------------------

class Test:
    def __init__(self, kind, name, command, environment, folder):
        self.kind, self.name, self.command = kind, name, command
        self.environment, self.folder = environment, folder
        self.seconds = 0.0
        self.reaches = b''


def listed():
    shown = subprocess.run(['ctest', '--test-dir', str(BUILD), '--show-only=json-v1'], capture_output=True, text=True,
                           check=True)
    found = []
    for test in json.loads(shown.stdout)['tests']:
        kind = test['name'].split('.')[0]
        if kind not in KINDS or 'command' not in test:
            continue
        properties = {p['name']: p['value'] for p in test.get('properties', [])}
        environment = dict(e.split('=', 1) for e in properties.get('ENVIRONMENT', []))
        folder = properties.get('WORKING_DIRECTORY', str(BUILD))
        found.append(Test(kind, test['name'], test['command'], environment, folder))
    return found


def tests():
    """One entry per GoogleTest case and per program: what tracing tells apart."""
    found = [t for t in listed() if t.kind != 'unit']
    unit = BUILD / 'tests' / 'st_tests'
    suite = ''
    for line in subprocess.run([unit, '--gtest_list_tests'], capture_output=True, text=True).stdout.splitlines():
        if not line.startswith(' '):
            suite = line.split()[0]
        else:
            name = suite + line.split()[0]
            found.append(Test('unit', name, [str(unit), f'--gtest_filter={name}'], {}, str(BUILD / 'tests')))
    return sorted(found, key=lambda t: KINDS.index(t.kind))


def expendable():
    """A mutant that eats the machine's memory is the first that the kernel ends."""
    os.setsid()
    try:
        Path('/proc/self/oom_score_adj').write_text('1000')
    except OSError:
        pass


def run(command, environment, folder, seconds):
    """True when it passes (or is skipped) in time. Everything it started is ended, its files are removed."""
    with tempfile.TemporaryDirectory(prefix='st-mutant-', ignore_cleanup_errors=True) as scratch:
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, **environment, 'TMPDIR': scratch},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   preexec_fn=expendable)
        try:
            return process.wait(seconds) in (0, 77)
        except subprocess.TimeoutExpired:
            return False
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def trace(found, count):
    def one(test):
        with tempfile.NamedTemporaryFile(prefix='st-trace-') as file:
            file.write(bytes(count))
            file.flush()
            started = time.monotonic()
            passed = run(test.command, {**test.environment, 'ST_MUTANT_TRACE': file.name}, test.folder, 600)
            test.seconds = time.monotonic() - started
            test.reaches = Path(file.name).read_bytes()
        return test, passed
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = [test.name for test, passed in pool.map(one, found) if not passed]
    if failed:
        say('mutants: left out, since they fail without a mutant: ' + ', '.join(failed))
    return [t for t in found if t.name not in failed]


def killer(mutant, found):
    """The first test that notices, or None."""
    reaching = [t for t in found if t.reaches[mutant.number]]
    active = {'ST_MUTANT': str(mutant.number)}
    unit = [t for t in reaching if t.kind == 'unit']
    if unit:
        names = ':'.join(t.name for t in unit)
        limit = min(MOST_SECONDS, 10 + 10 * sum(t.seconds for t in unit))
        if not run([unit[0].command[0], f'--gtest_filter={names}', '--gtest_fail_fast'], active, unit[0].folder, limit):
            return 'unit'
    for test in reaching:
        if test.kind == 'unit':
            continue
        if not run(test.command, {**test.environment, **active}, test.folder, min(MOST_SECONDS, 10 + 10 * test.seconds)):
            return test.name
    return None


# ---- the report ----------------------------------------------------------------------------------------------------

def equivalents():
    """Those that no test can notice: key -> reason. tests/mutation/equivalent.tsv"""
    listed = {}
    path = HERE / 'equivalent.tsv'
    if path.exists():
        for line in path.read_text().splitlines()[1:]:
            if line and not line.startswith('#'):
                fields = line.split('\t')
                listed['\t'.join(fields[:5])] = fields[5]
    return listed


def report(results, listed):
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
    survivors = [m for m, by in results if not by and m.key not in listed]
    for mutant in survivors:
        print(f'SURVIVED {mutant.file}:{mutant.line} {mutant.function}: {mutant.operator}: {mutant.text}')
    (WORK / 'survivors.tsv').write_text(''.join(m.key + '\n' for m in survivors))
    (WORK / 'results.tsv').write_text(''.join(f'{m.key}\t{m.line}\t{by or "-"}\n' for m, by in results))
    return survivors


def choose(finder, without, options):
    mutants = [m for m in finder.mutants if m.number not in without]
    if options.survivors:
        wanted = set((WORK / 'survivors.tsv').read_text().splitlines())
        mutants = [m for m in mutants if m.key in wanted]
    if options.filter:
        mutants = [m for m in mutants if m.file.startswith(options.filter)]
    if options.all or options.survivors or (options.filter and not options.count):
        return mutants
    return mutate.sample(mutants, options.count or 600, LEAST_PER_FILE)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('filter', nargs='?')
    parser.add_argument('--count', type=int)
    parser.add_argument('--all', action='store_true')
    parser.add_argument('--survivors', action='store_true')
    parser.add_argument('--build-only', action='store_true')
    options = parser.parse_args()

    say('mutants: finding them')
    finder = find_mutants()
    say(f'mutants: building {len(finder.mutants)}')
    without = build(finder)
    if options.build_only:
        return
    say('mutants: running each test once, to see what it reaches')
    found = trace(tests(), len(finder.mutants))
    chosen = choose(finder, without, options)
    say(f'mutants: trying {len(chosen)}')
    results = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for i, (mutant, by) in enumerate(zip(chosen, pool.map(lambda m: killer(m, found), chosen))):
            results.append((mutant, by))
            if not by or i % 50 == 49:
                say(f'  {i + 1}/{len(chosen)}' + ('' if by else f' survived {mutant.file}:{mutant.line} '
                                                  f'{mutant.operator}: {mutant.text}'))
    survivors = report(results, equivalents())
    killed = sum(1 for _, by in results if by)
    print(f'{killed} killed, {len(survivors)} survived, {len(results) - killed - len(survivors)} equivalent')


main()
