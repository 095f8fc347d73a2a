"""The structs and prototypes of _library.py, which are written by hand, against the description of the C API.

SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import json
import pathlib

import pytest

from safetensors_c import _library

DESCRIPTION = pathlib.Path(__file__).resolve().parents[2] / "safetensors.json"
if not DESCRIPTION.exists():
    pytest.skip("the description is only in a checkout", allow_module_level=True)
API = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
STRUCTS = {struct["name"]: struct for struct in API["structs"]}
FUNCTIONS = {function["name"]: function for function in API["functions"]}
OF_CLASS = {"Error": "st_error", "OpenOptions": "st_open_options", "Source": "st_source", "ParallelSource": "st_source",
            "Store": "st_store", "ReadOptions": "st_read_options", "Group": "st_group", "GroupReadOptions": "st_read_options",
            "DeviceOptions": "st_device_options", "WriteOptions": "st_write_options",
            "ReportingWriteOptions": "st_write_options", "TensorList": "st_tensor_list"}
LAYOUT = next(name for name, layout in API["layouts"].items() if layout["pointer"] == ctypes.sizeof(ctypes.c_void_p)
              and layout["align_of_64_bits"] == ctypes.alignment(ctypes.c_uint64))
PROTOTYPES = {name: prototype for table in (_library._SLOW, _library._QUICK, _library._SINCE_0_2, _library._SINCE_0_3,
                                       _library._DEVICES)
              for name, prototype in table.items()}


def passed_as(described):
    """Of a described type: size, and for numbers whether it is signed."""
    if "pointer" in described or "callback" in described:
        return "pointer"
    if described["name"] == "void":
        return None
    enums = {enum["name"]: enum["type"] for enum in API["enums"]}
    scalar = API["scalars"][enums.get(described["name"], described["name"])]
    size = API["layouts"][LAYOUT]["pointer"] if scalar["size"] == "pointer" else scalar["size"]
    return size, scalar["signed"]


def declared_as(declared):
    if declared is None:
        return None
    if not isinstance(declared(), ctypes._SimpleCData) or declared in (ctypes.c_void_p, ctypes.c_char_p):
        return "pointer"
    return ctypes.sizeof(declared), declared(-1).value < 0


def test_every_struct_is_compared():
    found = {name for name, value in vars(_library).items()
             if isinstance(value, type) and issubclass(value, ctypes.Structure) and value.__module__ == _library.__name__}
    assert found == set(OF_CLASS)


@pytest.mark.parametrize("name", OF_CLASS)
def test_structs(name):
    declared, described = getattr(_library, name), STRUCTS[OF_CLASS[name]]["fields"]
    fields = [field for base in reversed(declared.__mro__) for field in vars(base).get("_fields_", [])]
    assert [field[0] for field in fields] == [field["name"] for field in described[:len(fields)]]
    for field in described[:len(fields)]:
        assert getattr(declared, field["name"]).offset == field["offset"][LAYOUT], field["name"]


@pytest.mark.parametrize("name", PROTOTYPES)
def test_prototypes(name):
    result, *arguments = PROTOTYPES[name]
    function = FUNCTIONS[name]
    assert declared_as(result) == passed_as(function["returns"]["type"])
    assert [declared_as(one) for one in arguments] == [passed_as(one["type"]) for one in function["parameters"]]


def test_constants():
    constants = {one["name"]: one["value"] for enum in API["enums"] for one in enum["constants"]}
    assert _library.FORMATS == {name.removeprefix("ST_FORMAT_").lower().replace("_", "-"): value
                                for name, value in constants.items() if name.startswith("ST_FORMAT_")}
    names = [name for name in vars(_library) if name.startswith(("IO_", "WRITE_", "BUFFER_", "ERR_"))]
    assert len(names) > 5 and {name: getattr(_library, name) for name in names} == {name: constants[f"ST_{name}"] for name in names}
