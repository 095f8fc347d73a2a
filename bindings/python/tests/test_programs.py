"""Programs that call the reference save the same files and load the same values behind patch(). The models are made here.
Only the order of metadata may differ, because the reference's is random.

SPDX-License-Identifier: Apache-2.0
"""
import subprocess
import sys

import pytest

# Each program saves to `folder` and yields what it has loaded again, as dictionaries of tensors.
PROGRAMS = {
    "transformers": """
from transformers import GPT2LMHeadModel
for name, size in (("one", "5GB"), ("several", "40KB")):
    gpt2().save_pretrained(f"{folder}/{name}", max_shard_size=size)
    again = GPT2LMHeadModel.from_pretrained(f"{folder}/{name}").eval()
    tokens = torch.arange(8)[None]
    assert torch.equal(gpt2()(tokens).logits, again(tokens).logits)
    assert again.lm_head.weight is again.transformer.wte.weight
    yield again.state_dict()
""",
    "diffusers": """
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
unet = UNet2DModel(sample_size=8, block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1,
                   down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
unet.save_pretrained(f"{folder}/unet")
unet.save_pretrained(f"{folder}/variant", variant="fp16", max_shard_size="50KB")
DDPMPipeline(unet, DDPMScheduler()).save_pretrained(f"{folder}/pipeline")
yield UNet2DModel.from_pretrained(f"{folder}/unet").state_dict()
yield UNet2DModel.from_pretrained(f"{folder}/variant", variant="fp16", torch_dtype=torch.float16).state_dict()
yield DDPMPipeline.from_pretrained(f"{folder}/pipeline").unet.state_dict()
""",
    "accelerate": """
from accelerate import Accelerator, load_checkpoint_and_dispatch, load_checkpoint_in_model
accelerator = Accelerator(cpu=True)
accelerator.save_model(gpt2(), f"{folder}/model", max_shard_size="40KB")
again = gpt2(seed=1)
load_checkpoint_in_model(again, f"{folder}/model")
yield again.state_dict()
yield load_checkpoint_and_dispatch(gpt2(seed=2), f"{folder}/model", device_map={"": "cpu"}).state_dict()
trained = accelerator.prepare(torch.nn.Linear(3, 4))
accelerator.save_state(f"{folder}/state", safe_serialization=True)
with torch.no_grad():
    trained.weight.zero_()
accelerator.load_state(f"{folder}/state")
yield trained.state_dict()
""",
    "peft": """
from peft import LoraConfig, PeftModel, get_peft_model
adapted = get_peft_model(gpt2(), LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False))
adapted.save_pretrained(f"{folder}/adapter")
yield PeftModel.from_pretrained(gpt2(), f"{folder}/adapter").state_dict()
""",
    "huggingface_hub": """
from huggingface_hub import PyTorchModelHubMixin, load_torch_model, save_torch_model

class Mixed(torch.nn.Module, PyTorchModelHubMixin):
    def __init__(self, width=5):
        super().__init__()
        self.layer = torch.nn.Linear(width, 3)

Mixed(width=7).save_pretrained(f"{folder}/mixed")
yield Mixed.from_pretrained(f"{folder}/mixed").state_dict()
for name, size in (("one", "5GB"), ("several", "40KB")):
    pathlib.Path(folder, name).mkdir()
    save_torch_model(gpt2(), f"{folder}/{name}", max_shard_size=size)
    again = gpt2(seed=1)
    load_torch_model(again, f"{folder}/{name}")
    yield again.state_dict()
""",
}

PROGRAM = """
import hashlib, json, pathlib, sys
folder = sys.argv[1]
if sys.argv[2] == "patched":
    import safetensors_c
    safetensors_c.patch()
import torch
import safetensors.torch
assert safetensors.torch.load_file.__module__.startswith("safetensors_c" if sys.argv[2] == "patched" else "safetensors.")

def gpt2(seed=0):
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(seed)
    return GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=101, n_positions=16)).eval()

def run():
    torch.manual_seed(0)
{}

def digest(data):
    return hashlib.sha256(data).hexdigest()

for loaded in run():
    for name, value in sorted(loaded.items()):
        print(name, value.dtype, tuple(value.shape), digest(value.contiguous().view(-1).view(torch.uint8).numpy().tobytes()))
for path in sorted(pathlib.Path(folder).rglob("*.index*.json")):
    print(path.relative_to(folder), digest(path.read_bytes()))
for path in sorted(pathlib.Path(folder).rglob("*.safetensors")):
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    metadata = sorted(header.pop("__metadata__", dict()).items())
    print(path.relative_to(folder), digest(content[end:]), end, metadata, list(header.items()))
"""


@pytest.mark.parametrize("package", PROGRAMS)
def test_a_program_saves_and_loads_the_same(package, tmp_path):
    for name in ("torch", "transformers", package):
        pytest.importorskip(name)
    program = PROGRAM.replace("{}", "".join(f"    {line}\n" for line in PROGRAMS[package].splitlines()))
    said = {}
    for way in ("plain", "patched"):
        done = subprocess.run([sys.executable, "-c", program, str(tmp_path / way), way], text=True, capture_output=True)
        assert done.returncode == 0, done.stderr[-3000:]
        said[way] = done.stdout
    assert said["patched"] == said["plain"]
    assert ".safetensors " in said["plain"] and "torch.float32" in said["plain"]
