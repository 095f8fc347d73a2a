"""Keeps mutants from everything but folders of their own: one that takes a device for a file would save over /dev/null.

This process and its children get a view of the file systems in which all is read-only but a fresh /tmp, a fresh /dev/shm
and the folders that are named. It is gone with them.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import os
import sys
import tempfile
import traceback
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
LEFT_ALONE = ('/proc', '/dev/pts')

libc = ctypes.CDLL(None, use_errno=True)


def call(function, *arguments):
    if function(*arguments) != 0:
        error = ctypes.get_errno()
        raise SystemExit(f'mutants: they cannot be confined here: {os.strerror(error)}, {arguments}')


def mount(source, target, kind, flags):
    call(libc.mount, source and source.encode(), target.encode(), kind and kind.encode(), ctypes.c_ulong(flags), None)


def mounts():
    """(place, flags that must be kept) of each."""
    for line in Path('/proc/self/mountinfo').read_text().splitlines():
        fields = line.split()
        options = fields[5].split(',')
        kept = sum(bit for name, bit in (('nosuid', MS_NOSUID), ('nodev', MS_NODEV), ('noexec', MS_NOEXEC))
                   if name in options)
        yield fields[4].replace('\\040', ' '), kept


def confine(folder, *writable):
    """From here on, and for good; before there are threads. `folder` is the new /tmp."""
    hidden = [str(place) for place in (*writable, __file__) if str(place).startswith(('/tmp/', '/dev/shm/'))]
    if hidden:
        raise SystemExit(f'mutants: they get a fresh /tmp and /dev/shm, which hide {hidden[0]}: work elsewhere')
    os.chmod(folder, 0o1777)
    user, group = os.geteuid(), os.getegid()
    call(libc.unshare, CLONE_NEWNS | (CLONE_NEWUSER if user != 0 else 0))
    if user != 0:
        Path('/proc/self/setgroups').write_text('deny')
        Path('/proc/self/uid_map').write_text(f'{user} {user} 1')
        Path('/proc/self/gid_map').write_text(f'{group} {group} 1')
    mount(None, '/', None, MS_REC | MS_PRIVATE)
    kept = [str(place) for place in writable]
    for place in kept:
        mount(place, place, None, MS_BIND)
    for place, flags in list(mounts()):
        if place not in kept and not place.startswith(LEFT_ALONE):
            mount(None, place, None, MS_REMOUNT | MS_BIND | MS_RDONLY | flags)
    mount(folder, '/tmp', None, MS_BIND)
    mount(None, '/tmp', None, MS_REMOUNT | MS_BIND)
    mount('shm', '/dev/shm', 'tmpfs', MS_NOSUID | MS_NODEV)
    os.environ['TMPDIR'] = tempfile.tempdir = '/tmp'
    for place in ('/', '/dev', str(Path(__file__).parent), str(Path.home())):
        if os.access(place, os.W_OK):
            raise SystemExit(f'mutants: {place} can still be written to')


def confined(work, *writable):
    """Does `work` in a process that is confined, and returns its exit status."""
    with tempfile.TemporaryDirectory(prefix='mutants-', dir='/tmp') as folder:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                confine(folder, *writable)
                work()
                status = 0
            except SystemExit as stop:
                print(stop, file=sys.stderr)
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
