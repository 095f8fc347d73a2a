"""Times how long a Python program takes to load a checkpoint to a GPU with torch: our package, the reference and
fastsafetensors, in turns. Prints a line of JSON per loader.

usage: load.py FILE DEVICE ROUNDS; SAFETENSORS_C_LIBRARY and PYTHONPATH say where our package is.
SPDX-License-Identifier: Apache-2.0
"""
import gc
import importlib
import json
import sys
import time

import torch


class Ours:
    def __init__(self):
        self.torch = importlib.import_module("safetensors_c.torch")
        self.open = importlib.import_module("safetensors_c").safe_open

    def load(self, path, device):
        return self.torch.load_file(path, device=device)

    def first(self, path, device):
        with self.open(path, framework="pt", device=device) as file:
            return file.get_tensor(file.keys()[0])

    def forget(self):
        """Releases what a load keeps besides its tensors."""


class Reference(Ours):
    def __init__(self):
        self.torch = importlib.import_module("safetensors.torch")
        self.open = importlib.import_module("safetensors").safe_open


class Fastsafetensors:
    def __init__(self):
        package = importlib.import_module("fastsafetensors")
        self.loader, self.group = package.SafeTensorsFileLoader, package.SingleGroup
        self.held = []

    def load(self, path, device):
        # Without nogds it uses GPUDirect Storage, which few machines have.
        loader = self.loader(self.group(), device, nogds=True)
        self.held.append(loader)
        loader.add_filenames({0: [path]})
        buffer = loader.copy_files_to_device()
        self.held.append(buffer)  # the tensors are views of its memory
        return {name: buffer.get_tensor(name) for name in buffer.key_to_rank_lidx}

    first = None  # it has no way to load one tensor

    def forget(self):
        while self.held:
            self.held.pop().close()


LOADERS = {"ours": Ours, "reference": Reference, "fastsafetensors": Fastsafetensors}


def finish(device):
    if device != "cpu":
        torch.cuda.synchronize()


def seconds(work, path, device):
    begin = time.perf_counter()
    found = work(path, device)
    finish(device)
    return time.perf_counter() - begin, found


def same(expected, tensors, device):
    return (expected.keys() == tensors.keys()
            and all(tensors[name].equal(value.to(device)) for name, value in expected.items()))


def main():
    path, device, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    made, said = {}, {}
    for name, loader in LOADERS.items():
        try:
            made[name] = loader()
        except ImportError as error:
            said[name] = f"cannot be imported: {error}"
    expected = made["reference" if "reference" in made else "ours"].load(path, "cpu")
    best = {name: {} for name in made}
    for turn in range(rounds + 1):  # the first starts the driver and pins memory
        for name, loader in list(made.items()):
            try:
                for what in ("load", "first"):
                    if getattr(loader, what) is None:
                        continue
                    took, found = seconds(getattr(loader, what), path, device)
                    if turn == 0:
                        if what == "load" and not same(expected, found, device):
                            raise SystemExit(f"{name}: the tensors on the GPU are wrong")
                    elif took < best[name].get(what, float("inf")):
                        best[name][what] = took
                    del found
                    loader.forget()
                    gc.collect()
            except Exception as error:
                if name == "ours":
                    raise
                said[name] = f"{type(error).__name__}: {error}"
                del made[name]
    for name in LOADERS:
        print(json.dumps({"loader": name, "why": said.get(name), **({} if name in said else best[name])}))


if __name__ == "__main__":
    main()
