"""Programs that call the reference run unchanged behind patch(): transformers, with a model that is made here.

SPDX-License-Identifier: Apache-2.0
"""
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import safetensors_c
safetensors_c.patch()
import torch
from transformers import GPT2Config, GPT2LMHeadModel
import safetensors.torch
assert safetensors.torch.load_file.__module__ == "safetensors_c.torch"
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=101, n_positions=16)).eval()
for name, size in (("one", "5GB"), ("several", "40KB")):
    folder = f"{sys.argv[1]}/{name}"
    model.save_pretrained(folder, max_shard_size=size)
    again = GPT2LMHeadModel.from_pretrained(folder).eval()
    tokens = torch.arange(8)[None]
    assert torch.equal(model(tokens).logits, again(tokens).logits)
    assert again.lm_head.weight is again.transformer.wte.weight
    print(name, len(safetensors_c.safe_open(folder, "pt").shards()) > 1, safetensors_c.safe_open(folder, "pt").metadata()["format"])
"""


def test_transformers_save_and_load_a_model(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "one False pt\nseveral True pt\n"
