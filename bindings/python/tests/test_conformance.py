"""The corpus of the C library: what it says of each file is the exception here, and the path may be in any script.

SPDX-License-Identifier: Apache-2.0
"""
import csv
import json
import pathlib
import shutil

import numpy as np
import pytest

from safetensors_c import SafetensorError, edit_metadata, safe_open
from safetensors_c._file import File
from safetensors_c.numpy import load_file, save_file

CORPUS = pathlib.Path(__file__).resolve().parents[3] / "tests/conformance"
NAME = "\u043c\u043e\u0434\u0435\u043b\u044c \u6a21\u578b \U0001f917"


def table(name):
    if not (CORPUS / name).exists():
        pytest.skip("no checkout of libsafetensors is around this folder, which has the corpus")
    with open(CORPUS / name, newline="", encoding="utf-8") as file:
        return {row["file"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}


def outcome(source):
    try:
        if isinstance(source, bytes):  # safe_open takes some of them for a path
            return "ST_OK", len(File(source).table.names) or None
        with safe_open(source, "np") as file:
            return "ST_OK", len(file.keys()) or None
    except SafetensorError as error:
        return error.status, None


@pytest.mark.parametrize("source", [pathlib.Path, pathlib.Path.read_bytes], ids=["path", "bytes"])
def test_every_file_has_its_status(tmp_path, source):
    about, statuses, other = table("expected.tsv"), table("statuses.tsv"), []
    assert len(statuses) >= 316
    for name, row in statuses.items():
        path = tmp_path / NAME
        shutil.copyfile(CORPUS / "files" / name, path)
        tensors = about[name]["tensors"]
        wanted = row["default"], int(tensors) or None if row["default"] == "ST_OK" else None
        if outcome(source(path)) != wanted:
            other.append((name, wanted, outcome(source(path))))
    assert not other


def test_paths_in_any_script(tmp_path):
    folder = tmp_path / NAME
    folder.mkdir()
    arrays = {NAME: np.arange(6.0).reshape(2, 3), "b": np.ones(2, np.int8)}
    for name, array in arrays.items():
        save_file({name: array}, folder / f"{name}.safetensors", {NAME: NAME})
    index = {"weight_map": {name: f"{name}.safetensors" for name in arrays}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    edit_metadata(folder / f"{NAME}.safetensors", {NAME: "changed"})
    with safe_open(folder / f"{NAME}.safetensors", "np") as file:
        assert file.metadata() == {NAME: "changed"} and file.shapes() == {NAME: [2, 3]}
    with safe_open(str(folder), "np") as file:
        assert sorted(file.shards()) == sorted(str(folder / f"{name}.safetensors") for name in arrays)
    assert all(np.array_equal(array, arrays[name]) for name, array in load_file(folder).items())
    with pytest.raises(FileNotFoundError, match=f"{NAME}2"):
        safe_open(folder / f"{NAME}2", "np")
