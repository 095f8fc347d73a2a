"""Checks that libraries and programs have the protections of linker, loader and ST_HARDEN.

ELF: RELRO with all symbols bound at the start, no executable stack, no memory that is writable and executable, no text
relocations, no path to search for libraries; a program is position-independent. DLL and EXE: ASLR with all 64 bits, no
executable data. With --compiled also stack protectors, _FORTIFY_SOURCE (with glibc), and code for CET (x86-64) or BTI
(aarch64): each exported function begins with a landing pad. The loader turns CET and BTI on only if the compiler's own
objects are marked, too; Debian 12's are not. --debian is --compiled without CET and BTI, which Debian 12's flags lack, and
without _FORTIFY_SOURCE. gcc 16 finds every length safe, so it leaves no checking function in the library. ./dev package
looks for the flag in each compiler command instead.
usage: hardening.py [--compiled | --debian] FILE...     exit code 77 for ELF files of 32 bits or big-endian

SPDX-License-Identifier: Apache-2.0
"""
import re
import struct
import sys

LOAD, DYNAMIC, INTERPRETER, STACK, RELRO = 1, 2, 3, 0x6474E551, 0x6474E552
DYNAMIC_SYMBOLS, FUNCTION = 11, 2
X86_64, AARCH64 = 62, 183
LANDING_PADS = {X86_64: ("CET", [b"\xf3\x0f\x1e\xfa"]),  # endbr64
                AARCH64: ("BTI", [b"\x5f\x24\x03\xd5", b"\x3f\x23\x03\xd5"])}  # bti c, paciasp
EXECUTE, WRITE = 1, 2
NEEDED, STRINGS, RPATH, TEXTREL, BIND_NOW, FLAGS, RUNPATH, FLAGS_1 = 1, 5, 15, 22, 24, 30, 29, 0x6FFFFFFB


class Elf:
    """The parts of an ELF file of 64 bits, little-endian, that a loader reads."""

    def __init__(self, data):
        if data[:6] != b"\x7fELF\2\1":
            print("skipped: not an ELF file of 64 bits, little-endian")
            sys.exit(77)
        self.data = data
        self.machine, = struct.unpack_from("<H", data, 18)
        table, = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        # type, flags, offset, address, physical address, size in the file, size, alignment
        self.segments = [struct.unpack_from("<IIQQQQQQ", data, table + i * size) for i in range(count)]

    def has(self, kind):
        return any(segment[0] == kind for segment in self.segments)

    def dynamic(self):
        """The values of each tag."""
        found = {}
        for kind, _, offset, _, _, size, *_ in self.segments:
            for at in range(offset, offset + size, 16) if kind == DYNAMIC else ():
                tag, value = struct.unpack_from("<qQ", self.data, at)
                found.setdefault(tag, []).append(value)
        return found

    def needed(self):
        """The names of the libraries that it links."""
        dynamic = self.dynamic()
        strings = dynamic[STRINGS][0]
        return [self.bytes_at(strings + at, 200).partition(b"\0")[0].decode() for at in dynamic.get(NEEDED, [])]

    def exported(self):
        """The first instruction of each exported function."""
        table, = struct.unpack_from("<Q", self.data, 40)
        size, count = struct.unpack_from("<HH", self.data, 58)
        for _, kind, _, _, offset, length, *_ in (struct.unpack_from("<IIQQQQIIQQ", self.data, table + i * size)
                                                  for i in range(count)):
            for at in range(offset, offset + length, 24) if kind == DYNAMIC_SYMBOLS else ():
                _, info, _, section, address, _ = struct.unpack_from("<IBBHQQ", self.data, at)
                if info & 15 == FUNCTION and section:
                    yield self.bytes_at(address, 4)

    def bytes_at(self, address, count):
        for kind, _, offset, start, _, size, *_ in self.segments:
            if kind == LOAD and start <= address < start + size:
                return self.data[offset + address - start:][:count]
        return b""


def linked(elf):
    dynamic = elf.dynamic()
    flags, flags_1 = dynamic.get(FLAGS, [0])[0], dynamic.get(FLAGS_1, [0])[0]
    stacks = [segment[1] for segment in elf.segments if segment[0] == STACK]
    if not elf.has(RELRO):
        yield "has no RELRO"
    if not (BIND_NOW in dynamic or flags & 8 or flags_1 & 1):
        yield "binds symbols late, so its table of functions stays writable"
    if not stacks or stacks[0] & EXECUTE:
        yield "has an executable stack"
    if any(kind == LOAD and bits & WRITE and bits & EXECUTE for kind, bits, *_ in elf.segments):
        yield "has memory that is writable and executable"
    if TEXTREL in dynamic or flags & 4:
        yield "has text relocations"
    if elf.has(INTERPRETER) and struct.unpack_from("<H", elf.data, 16)[0] != 3:
        yield "is a program with fixed addresses"


def compiled(elf, debian, objects):
    if RPATH in elf.dynamic() or RUNPATH in elf.dynamic():
        yield "searches libraries in a directory of its own"
    if b"\0__stack_chk_fail\0" not in elf.data + objects:
        yield "has no stack protectors"
    if not debian and b"\0GLIBC_2." in elf.data and not re.search(rb"\0__(mem|str|f?printf|v?snprintf|read|pread64)\w*_chk\0", elf.data):
        yield "was compiled without _FORTIFY_SOURCE"
    name, pads = LANDING_PADS.get(elf.machine, ("", []))
    if not debian and pads and (lacking := [first for first in elf.exported() if first not in pads]):
        yield f"lacks {name}: {len(lacking)} exported functions have no landing pad"


def portable_executable(data):
    start, = struct.unpack_from("<I", data, 0x3C)
    bits, = struct.unpack_from("<H", data, start + 24 + 70)  # DllCharacteristics
    stripped, = struct.unpack_from("<H", data, start + 22)
    for name, mask in (("ASLR", 0x40), ("ASLR of 64 bits", 0x20), ("data that is never executed", 0x100)):
        if not bits & mask:
            yield f"lacks {name}"
    if stripped & 1:
        yield "has no relocations, without which it is loaded at one address"


def faults(data, option="", objects=b""):
    """Returns the faults of a library or program. `objects` is an archive of its objects. zig 0.17.1 links its own
    __stack_chk_fail(), and a stripped library does not have that name."""
    if data[:2] == b"MZ":
        return list(portable_executable(data))
    if data[:4] != b"\x7fELF":
        return []  # Mach-O: the linker knows no other way
    elf = Elf(data)
    return [*linked(elf), *(compiled(elf, option == "--debian", objects) if option else ())]


def main(option, *paths):
    if option not in ("--compiled", "--debian"):
        option, paths = "", (option, *paths)
    found = []
    for path in paths:
        with open(path, "rb") as file:
            found += [f"{path}: {fault}" for fault in faults(file.read(), option)]
    print(*found, sep="\n", end="\n" * bool(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
