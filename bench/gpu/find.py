"""Finds the driver of a GPU: its library, and the names of its devices.

SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import os

LIBRARIES = {"cuda": ("libcuda.so.1",), "hip": ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")}
INIT = {"cuda": "cuInit", "hip": "hipInit"}
COUNT = {"cuda": "cuDeviceGetCount", "hip": "hipGetDeviceCount"}
NAME = {"cuda": "cuDeviceGetName", "hip": "hipDeviceGetName"}


class Driver:
    def __init__(self, kind, path, devices, is_fake=False):
        self.kind, self.path, self.devices, self.is_fake = kind, path, devices, is_fake


def path_of(name):
    """The path from which this process has loaded a library."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if os.path.basename(path).startswith(name.split(".so")[0] + ".so"):
                return path
    return name


def devices_of(kind, library):
    """The names of the devices; none, and why, if it cannot be used."""
    count = ctypes.c_int(0)
    try:
        code = getattr(library, INIT[kind])(0) or getattr(library, COUNT[kind])(ctypes.byref(count))
    except AttributeError as error:
        return [], str(error)
    if code:
        return [], f"the driver returned {code}"
    names = []
    for ordinal in range(count.value):
        name = ctypes.create_string_buffer(200)
        getattr(library, NAME[kind])(name, len(name), ordinal)
        names.append(name.value.decode(errors="replace"))
    return names, "the driver has no device"


def find():
    """The first driver that has a device, or None; and why the others have none."""
    reasons = []
    for kind, names in LIBRARIES.items():
        why = f"there is no {' or '.join(names)}"
        for name in names:
            try:
                library = ctypes.CDLL(name)
            except OSError as error:
                if "No such file" not in str(error):
                    why = str(error)
                continue
            devices, why = devices_of(kind, library)
            if devices:
                return Driver(kind, path_of(name), devices), []
        reasons.append(f"{kind.upper()}: {why}")
    return None, reasons
