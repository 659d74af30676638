"""A tiny language model of Hugging Face's form, from random weights to answers: packed, imported, trained and asked.

    python examples/language_model.py            writes to a temporary folder
    python examples/language_model.py FOLDER     keeps the model, the rows and the program

It needs `pip install ".[native,lm]"`. A published model takes the same commands: its folder has the same files.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import prograd
from compiler.__main__ import main as compiler

CAPITALS = {
    "belgium": "brussels",
    "france": "paris",
    "italy": "rome",
    "japan": "tokyo",
    "peru": "lima",
    "chad": "ndjamena",
}
TALKS = [
    [("user", f"what is the capital of {land} ?"), ("assistant", f"the capital of {land} is {city} .")]
    for land, city in CAPITALS.items()
]
TEMPLATE = (
    "{% for turn in messages %}<|{{ turn['role'] }}|>{{ turn['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
WIDTH, HIDDEN, LAYERS, HEADS = 64, 128, 2, 4


def write_tokenizer(folder: Path) -> int:
    """Write a tokenizer of the words of the talks, and return the number of its codes."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<|end|>", "<|user|>", "<|assistant|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, show_progress=False, initial_alphabet=made.pre_tokenizer.alphabet()
    )
    made.train_from_iterator([text for talk in TALKS for _, text in talk], trainer)
    made.save(str(folder / "tokenizer.json"))
    about = {"eos_token": "<|end|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    return made.get_vocab_size()


def write_model(folder: Path, codes: int) -> None:
    """Write a config of Llama's kind, and random weights in the format safetensors."""
    config = {
        "model_type": "llama", "vocab_size": codes, "hidden_size": WIDTH, "intermediate_size": HIDDEN,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "max_position_embeddings": 64,
        "tie_word_embeddings": True, "eos_token_id": 0,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    square, norm = (WIDTH, WIDTH), (WIDTH,)
    layer = {f"self_attn.{name}_proj": square for name in "qkvo"} | {"mlp.down_proj": (WIDTH, HIDDEN)}
    layer |= {f"mlp.{name}_proj": (HIDDEN, WIDTH) for name in ("gate", "up")}
    layer |= {"input_layernorm": norm, "post_attention_layernorm": norm}
    shapes = {"embed_tokens": (codes, WIDTH), "norm": norm}
    shapes |= {f"layers.{i}.{name}": shape for i in range(LAYERS) for name, shape in layer.items()}
    random, header, elements = np.random.default_rng(0), {}, b""
    for name, shape in shapes.items():
        array = np.ones(shape, "<f4") if "norm" in name else random.normal(0, 0.08, shape).astype("<f4")
        extent = [len(elements), len(elements) + array.nbytes]
        header[f"model.{name}.weight"] = {"dtype": "F32", "shape": shape, "data_offsets": extent}
        elements += array.tobytes()
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + elements)


def main(here: Path) -> None:
    """Make a model in a folder, train it, and print answers."""
    model, rows, program = (str(here / name) for name in ("model", "rows.safetensors", "net.pb"))
    Path(model).mkdir(parents=True, exist_ok=True)
    write_model(Path(model), write_tokenizer(Path(model)))
    lines = [{"messages": [{"role": role, "content": text} for role, text in talk]} for talk in TALKS]
    (here / "talks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    compiler(["data", "pack", str(here / "talks.jsonl"), "--chat", model, "--length", "32", "-o", rows, "--force"])
    train = ["--train", "*", "--optimizer", "adamw:3e-3", "--batch", "6", "--epochs", "60", "--positions", "64"]
    compiler(["import", "lm", model, "--data", rows, *train, "-o", program, "--force"])
    run = prograd.load(program)
    print(f"loss {run.train(progress=False).metrics['loss']:.4f}")
    for land in ("belgium", "japan", "peru"):
        print(f"{land}: {''.join(run.chat(f'what is the capital of {land} ?', most=24))}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else temporary))
