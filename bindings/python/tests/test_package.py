"""The package as programs meet it: what importing costs, patch(), and how the library is found.

SPDX-License-Identifier: Apache-2.0
"""
import ast
import importlib
import multiprocessing
import os
import pathlib
import py_compile
import shutil
import subprocess
import sys
import tarfile
import typing
import zipfile

import numpy
import pytest


def python(code, *arguments, **environment):
    done = subprocess.run([sys.executable, "-c", code, *arguments], env={**os.environ, **environment}, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_no_framework_and_no_library():
    loaded = python("import sys; before = set(sys.modules); from safetensors_c import SafetensorError, safe_open, serialize_file\n"
                    "print(*sorted(set(sys.modules) - before))").split()
    assert not {"numpy", "torch", "ctypes", "safetensors_c._library", "typing"} & set(loaded), loaded
    assert python("import sys; import safetensors_c.numpy; print('safetensors_c._library' in sys.modules)") == "False"


def test_patch_replaces_the_reference():
    assert python("""
import safetensors_c
safetensors_c.patch()
safetensors_c.patch()
import safetensors, safetensors.numpy, safetensors_c.numpy
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from safetensors._safetensors_rust import SafetensorError as rust
assert safetensors is safetensors_c and safetensors.numpy is safetensors_c.numpy and rust is SafetensorError
assert safe_open.__module__ == "safetensors_c" and safetensors.__version__
import importlib.util
assert importlib.util.find_spec("safetensors") is not None
assert importlib.util.find_spec("safetensors.torch") and not importlib.util.find_spec("safetensors.nothing")
try:
    import safetensors.nothing
except ModuleNotFoundError as error:
    print(error)
""") == "No module named 'safetensors.nothing'"


def test_patch_after_the_reference_was_imported():
    pytest.importorskip("safetensors")
    python("import safetensors, safetensors.numpy, safetensors_c; safetensors_c.patch(); import safetensors as again\n"
           "import safetensors.numpy as numpy; assert again is safetensors_c and numpy.__name__ == 'safetensors_c.numpy'")


def test_program_is_run_with_the_patch(tmp_path):
    (tmp_path / "program.py").write_text("import sys, safetensors; print(safetensors.__name__, __name__, sys.argv[1:])")
    for command in (["program.py"], ["-m", "program"]):
        done = subprocess.run([sys.executable, "-m", "safetensors_c", *command, "x"], cwd=tmp_path, text=True,
                              capture_output=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        assert done.stdout == "safetensors_c __main__ ['x']\n", done.stderr
    assert subprocess.run([sys.executable, "-m", "safetensors_c"], capture_output=True).returncode == 1
    absent = subprocess.run([sys.executable, "-m", "safetensors_c", "absent.py"], cwd=tmp_path, capture_output=True, text=True,
                            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert absent.returncode == 2 and absent.stderr.count("\n") == 1 and "No such file" in absent.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("when", ["find_spec", "exec_module"])
@pytest.mark.parametrize("name", ["_file", "_numpy", "_progress"])
def test_fork_waits_for_imports_of_other_threads(tmp_path, when, name):
    python("""
import importlib.machinery, os, signal, sys, threading, time
from safetensors_c.numpy import load_file
path, when, name = sys.argv[1:]
begun = threading.Event()

def wait():
    begun.set()
    time.sleep(0.3)

class Slow(importlib.machinery.SourceFileLoader):
    def exec_module(self, module):
        if when == "exec_module":
            wait()
        super().exec_module(module)

class Finder:
    def find_spec(self, fullname, places, target=None):
        if fullname != "safetensors_c." + name:
            return None
        if when == "find_spec":
            wait()
        spec = importlib.machinery.PathFinder.find_spec(fullname, places)
        spec.loader = Slow(fullname, spec.origin)
        return spec

sys.meta_path.insert(0, Finder())
with open(path, "wb") as file:
    file.write(bytes([8, 0, 0, 0, 0, 0, 0, 0]) + b"{}      ")
thread = threading.Thread(target=load_file, args=[path], kwargs={"progress": print})
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    os._exit(load_file(path, progress=print) != {})
thread.join()
assert os.waitpid(child, 0)[1] == 0
""", str(tmp_path / "m"), when, name)


def test_library_that_is_none(tmp_path):
    (tmp_path / "none.so").write_text("")
    assert "set SAFETENSORS_C_LIBRARY" in python(
        "import safetensors_c\ntry:\n  safetensors_c.library_version()\nexcept ImportError as error:\n  print(error)",
        SAFETENSORS_C_LIBRARY=str(tmp_path / "none.so"))


@pytest.mark.skipif(os.name != "posix", reason="links need privileges on Windows")
@pytest.mark.parametrize("library", ["./lib.so", "link/../lib.so"])
def test_library_by_a_relative_path_is_found_after_a_change_of_directory(tmp_path, library):
    from safetensors_c import _library
    (tmp_path / "elsewhere" / "folder").mkdir(parents=True)
    (tmp_path / "link").symlink_to("elsewhere/folder")
    for folder in (tmp_path, tmp_path / "elsewhere"):
        (folder / "lib.so").symlink_to(_library.st._name)
    code = ("import os, sys; os.chdir(sys.argv[1]); import safetensors_c; os.chdir('/'); safetensors_c.library_version()\n"
            "from safetensors_c import _library; print(_library.path)")
    assert python(code, str(tmp_path), SAFETENSORS_C_LIBRARY=library) == os.path.join(tmp_path, library)


def test_library_by_its_name_stays_a_name():
    assert python("import os, safetensors_c; print(os.environ['SAFETENSORS_C_LIBRARY'])",
                  SAFETENSORS_C_LIBRARY="libsafetensors.so.0") == "libsafetensors.so.0"


def test_names(ours):
    assert set(ours.__all__) <= set(dir(ours))
    public = {name for name in ours._PLACES if not name.startswith("_") and name != "PySafeSlice"}
    assert public == set(ours.__all__)
    for name in ours.__all__:
        assert getattr(ours, name).__doc__, name
    with pytest.raises(AttributeError):
        ours.nothing


def test_names_of_the_reference_are_all_there(reference, ours):
    for name in reference.__dict__:
        assert name.startswith("__") or hasattr(ours, name) and name in dir(ours), name
    for method in [name for name in dir(reference.safe_open) if not name.startswith("_")]:
        assert hasattr(ours.safe_open, method), method


def test_version(ours):
    assert ours.library_version().split()[0].count(".") == 2


def test_type_of_what_with_gives(ours):
    assert typing.get_type_hints(ours.safe_open.__enter__) == {"return": ours.safe_open}  # without it, Any


def names_of(path):
    """The names that a module defines, without running it: its framework may be missing."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return found


@pytest.mark.parametrize("module", ["numpy", "torch", "flax", "tensorflow", "paddle", "mlx"])
def test_modules_have_the_private_names_of_the_reference(reference, ours, module):
    theirs, mine = (names_of(pathlib.Path(package.__file__).parent / f"{module}.py") for package in (reference, ours))
    assert theirs <= mine, theirs - mine


@pytest.mark.parametrize("module", ["numpy", "torch"])
def test_modules_have_the_functions_that_the_reference_imports_there(reference, ours, module):
    pytest.importorskip(module)
    theirs, mine = (importlib.import_module(f"{package.__name__}.{module}") for package in (reference, ours))
    for name in ("TensorSpec", "deserialize", "safe_open", "serialize", "serialize_file"):
        assert not hasattr(theirs, name) or getattr(mine, name) is getattr(ours, name), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mine.nothing


def test_private_names_of_numpy_work_as_in_the_reference(np_module, package):
    arrays = {"a": numpy.arange(6, dtype="i4").reshape(2, 3), "b": numpy.zeros((0, 2), "f8")}
    held = []
    saved = package.serialize(np_module._flatten(arrays, held))
    again = np_module._view2np(package.deserialize(saved))
    assert all(numpy.array_equal(arrays[name], again[name]) and arrays[name].dtype == again[name].dtype for name in arrays)
    assert np_module._getdtype("F32") is numpy.float32 and np_module._TYPES["BOOL"] is bool
    assert np_module._is_little_endian(arrays["a"]) and not np_module._is_little_endian(numpy.zeros(1, ">i4"))


def test_patch_has_the_rust_module():
    assert python("""
import safetensors_c
safetensors_c.patch()
from safetensors import _safetensors_rust
import safetensors._safetensors_rust as again
assert again is _safetensors_rust and again.safe_open is safetensors_c.safe_open
print(*again.__all__)
""").split() == RUST
    # The reference has imported it itself.
    assert python("import safetensors_c; safetensors_c.patch(); import safetensors\n"
                  "print(*safetensors._safetensors_rust.__all__)").split() == RUST


RUST = ["PrefetchLoader", "PySafeSlice", "SafetensorError", "TensorMeta", "TensorSpec", "__version__",
        "_safe_open_handle", "deserialize", "safe_open", "serialize", "serialize_file"]


CHILDREN = """
import multiprocessing, subprocess, sys
import safetensors  # at the top, which a spawned child runs again
from safetensors.numpy import save_file

def answer(_=None):
    return f"{safetensors.__name__} {save_file.__module__}"

if __name__ == "__main__":
    print(answer())
    for method in sys.argv[1:]:
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(*pool.map(answer, [0]))
    code = "import safetensors.numpy; print(safetensors.__name__, safetensors.numpy.save_file.__module__)"
    print(subprocess.check_output([sys.executable, "-c", code], text=True), end="")
"""


def test_children_are_patched(tmp_path):
    (tmp_path / "program.py").write_text(CHILDREN)
    methods = [method for method in multiprocessing.get_all_start_methods() if method != "fork"]
    done = subprocess.run([sys.executable, "-m", "safetensors_c", "program.py", *methods], cwd=tmp_path, text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.stdout.splitlines() == ["safetensors_c safetensors_c.numpy"] * (len(methods) + 2), done.stderr


def test_child_finds_the_package_that_its_parent_found_by_sys_path(tmp_path, ours):
    place = os.path.dirname(os.path.dirname(ours.__file__))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = (f"import sys; sys.path.insert(0, {place!r}); import safetensors_c; safetensors_c.patch(); import subprocess\n"
            "print(subprocess.check_output([sys.executable, '-c', 'import safetensors; print(safetensors.__name__)'], text=True))")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, text=True, capture_output=True, env=environment)
    assert done.stdout.strip() == "safetensors_c", done.stderr


def test_program_sees_its_directory_and_its_module(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "neighbour.py").write_text("value = 'neighbour'")
    (tmp_path / "code" / "program.py").write_text("""
import atexit, pickle, sys
import neighbour
class Thing: pass
atexit.register(lambda: print(type(pickle.loads(pickle.dumps(Thing()))) is Thing))
print(neighbour.value, sys.path[0] == __file__[:-len("/program.py")], sys.argv, __spec__, sys.modules["__main__"].Thing is Thing)
""")
    program = str(tmp_path / "code" / "program.py")
    for command in ([], ["-m", "safetensors_c"]):
        done = subprocess.run([sys.executable, *command, program, "x"], text=True, capture_output=True, cwd=tmp_path,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        assert done.stdout == f"neighbour True {[program, 'x']} None True\nTrue\n", done.stderr


MAIN = """
import atexit, pickle, sys, threading
class Thing: pass
def check():
    print(type(pickle.loads(pickle.dumps(Thing()))) is Thing)
threading.Thread(target=lambda: (threading.main_thread().join(), check())).start()  # when the program's code has ended
atexit.register(check)
print(__name__, __file__, __package__, __spec__ and __spec__.name, type(__loader__).__name__, sys.argv)
print([each for each in sys.path if "_children" not in each])  # patch() adds it for child processes
"""


@pytest.mark.parametrize("program", [["-m", "module"], ["-m", "package"], ["-m", "package.module"], ["package"],
                                     ["archive.zip"], ["compiled.pyc"], ["module.py"], ["-m", "absent"], ["empty"],
                                     ["inside/absent.zip"]], ids=" ".join)
def test_program_stays_main_until_the_process_ends(tmp_path, program):
    for folder in ("package", "empty", "inside"):
        (tmp_path / folder).mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    for place in ("module.py", "package/__main__.py", "package/module.py", "__main__.py", "inside/__main__.py"):
        (tmp_path / place).write_text(MAIN)
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", MAIN)
    py_compile.compile(str(tmp_path / "module.py"), str(tmp_path / "compiled.pyc"))
    plain, ours = (subprocess.run([sys.executable, *command, *program, "x"], text=True, capture_output=True, cwd=tmp_path,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
                   for command in ([], ["-m", "safetensors_c"]))
    assert plain.stdout.endswith("True\nTrue\n") or program[-1] in ("absent", "empty", "inside/absent.zip")
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)


@pytest.mark.parametrize("program", ["code/program.py", "./code/../code/program.py"])
def test_program_by_a_relative_path_has_an_absolute_one(tmp_path, program):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "program.py").write_text(
        "import os, sys\nos.chdir('/')\nprint(__file__, __loader__.path, (lambda: 0).__code__.co_filename, sys.argv)")
    path = os.path.join(tmp_path, program) if os.name == "posix" else os.path.abspath(tmp_path / program)
    for command in ([], ["-m", "safetensors_c"]):
        done = subprocess.run([sys.executable, *command, program, "x"], text=True, capture_output=True, cwd=tmp_path,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        assert done.stdout == f"{path} {path} {path} {[program, 'x']}\n", done.stderr


SAMPLE = """
from safetensors_c import HttpOptions, SafetensorError, TensorSpec, deserialize, safe_open, serialize, serialize_file

with safe_open("x", framework="np", device="cpu") as f:
    names: list[str] = f.keys()
    metadata: dict[str, str] | None = f.metadata()
    shape: list[int] = f.get_slice("a").get_shape()
    print(f.get_tensor("a"), f.get_slice("a")[0], f.get_tensors(), f.shapes())
http: HttpOptions = HttpOptions(headers={"a": "b"}, plain=True, ca_file="x")
safe_open("https://x", framework="np", http=http).__exit__(None, None, None)
data: bytes = serialize({"a": TensorSpec(dtype="float32", shape=[1], data_ptr=1, data_len=4)})
serialize_file({}, "x", progress=lambda done, total: None)
status: str | None = SafetensorError().status
"""


def test_types_are_those_of_strict_programs(tmp_path, ours):
    pytest.importorskip("mypy")
    (tmp_path / "sample.py").write_text(SAMPLE)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "sample.py"]
    place = os.path.dirname(os.path.dirname(ours.__file__))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "MYPYPATH": place})
    assert done.returncode == 0, done.stdout


SETUP = pathlib.Path(__file__).resolve().parents[1] / "setup.py"


@pytest.mark.skipif(os.name != "posix" or not SETUP.exists(), reason="needs the sources, and programs named as on POSIX")
def test_build_without_tools_says_what_to_install(tmp_path):
    pytest.importorskip("setuptools")
    source = tmp_path / "bindings" / "python"
    shutil.copytree(SETUP.parent, source, ignore=shutil.ignore_patterns("build", "tests", "*.egg-info"))
    (tmp_path / "capi").mkdir()
    (tmp_path / "capi" / "safetensors.map").touch()
    environment = {name: value for name, value in os.environ.items() if name not in ("SAFETENSORS_C_LIBRARY", "CXX")}

    def run(code):
        return subprocess.run([sys.executable, "-c", "import setuptools.build_meta as build; " + code], cwd=source,
                              capture_output=True, text=True, env={**environment, "PATH": str(tmp_path)})
    asked = run("print(build.get_requires_for_build_wheel())").stdout
    assert "cmake>=3.24" in asked and "ninja" in asked  # pip installs them, unless it may not
    done = run("build.build_wheel('made')")
    message = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in message
    for missing in ("CMake 3.24", "Ninja or make", "a C++20 compiler", "SAFETENSORS_C_LIBRARY"):
        assert missing in message
    assert "Deprecat" not in message


@pytest.mark.skipif(not SETUP.exists(), reason="needs the sources")
@pytest.mark.skipif(sys.platform == "win32", reason="the sdist is made on a POSIX system")
def test_sdist_has_the_sources_of_the_library(tmp_path):
    pytest.importorskip("setuptools")
    root = tmp_path / "checkout"
    place = root / "bindings" / "python"
    shutil.copytree(SETUP.parent, place, ignore=shutil.ignore_patterns("build", "tests", "*.egg-info"))
    for name in ("CMakeLists.txt", "capi/safetensors.map", "src/a.cpp", "include/a.h", "cmake/a.cmake"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    subprocess.run([sys.executable, "setup.py", "-q", "sdist", "-d", str(tmp_path / "made")], cwd=place, check=True,
                   capture_output=True)
    with tarfile.open(next((tmp_path / "made").iterdir())) as archive:
        names = archive.getnames()
    for name in ("CMakeLists.txt", "capi/safetensors.map", "src/a.cpp", "include/a.h", "cmake/a.cmake"):
        assert any(each.endswith("/libsafetensors/" + name) for each in names), names
