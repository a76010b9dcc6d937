"""`python -m scripts.train_demo STEP --work DIR`: the steps in order are those of `--help`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from scripts.train_demo.chat.generate import conversations, held_out
from scripts.train_demo.shape import MINI, Shape

if TYPE_CHECKING:
    from scripts.train_demo.model import Model

_HELD_SEED = 99


def _chat(args: argparse.Namespace) -> None:
    args.work.mkdir(parents=True, exist_ok=True)
    made = conversations(args.seed, int(args.megabytes * 1e6), args.long_copies)
    for name, items in (("chat", made), ("heldout", held_out(_HELD_SEED))):
        with (args.work / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for item in items:
                file.write(json.dumps(item, ensure_ascii=False) + "\n")


def _tokenizer(args: argparse.Namespace) -> None:
    from scripts.train_demo.tokens import train_tokenizer

    size = args.shape.vocab_size
    made = train_tokenizer(
        args.corpus, args.work / "chat.jsonl", args.work / "tokenizer.json", size
    )
    if made.get_vocab_size() != size:
        raise SystemExit(f"the corpus gives {made.get_vocab_size()} tokens, not {size}; add text")


def _load_tokenizer(args: argparse.Namespace) -> Tokenizer:
    path = args.work / "tokenizer.json"
    if not path.exists():
        raise SystemExit(f"{path}: no tokenizer; run the tokenizer step first")
    return Tokenizer.from_file(str(path))


def _encode(args: argparse.Namespace) -> None:
    from scripts.train_demo.tokens import encode

    tokenizer = _load_tokenizer(args)
    for name, size in encode(
        tokenizer, args.corpus, args.work / "chat.jsonl", args.work / "tokens"
    ):
        print(f"{name}: {size} tokens")


def _train(args: argparse.Namespace) -> None:
    from scripts.train_demo.phases import Settings
    from scripts.train_demo.train import train

    given = {
        key: value
        for key in ("tokens", "mtp_tokens", "workers", "context", "batch", "lr")
        if (value := getattr(args, key)) is not None
    }
    finished = train(args.work, args.shape, Settings(**given), args.minutes)
    print("finished" if finished else "stopped; run the same command to go on")


def _trained(args: argparse.Namespace) -> Model:
    import torch

    from scripts.train_demo.checkpoint import load

    # Matrices this small lose more than they gain with several threads.
    torch.set_num_threads(1)
    return load(args.work / "run" / "last.pt").model


def _judge(args: argparse.Namespace) -> None:
    from scripts.train_demo.judge import judge, table

    model = _trained(args)
    judged = judge(model, _load_tokenizer(args), args.work / "heldout.jsonl", args.limit)
    text = json.dumps(judged, indent=1, ensure_ascii=False)
    (args.work / "judged.json").write_text(text + "\n", encoding="utf-8")
    print(table(judged))


def _export(args: argparse.Namespace) -> None:
    from scripts.train_demo.export import export

    out = args.work / "checkpoint"
    model = _trained(args)
    print(f"{out}: {export(model, args.work / 'tokenizer.json', out)} tensors")
    if args.check:
        from scripts.train_demo.verify import verify

        print(f"largest logit difference to transformers: {verify(model, out):.2e}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.train_demo", description=__doc__)
    steps = parser.add_subparsers(required=True, metavar="STEP")

    def step(name: str, run: object, text: str) -> argparse.ArgumentParser:
        sub = steps.add_parser(name, help=text, description=text)
        sub.add_argument("--work", type=Path, required=True, help="directory of every result")
        sub.add_argument("--mini", dest="shape", action="store_const", const=MINI, default=Shape())
        sub.set_defaults(run=run)
        return sub

    chat = step("chat", _chat, "generate conversations and held-out prompts")
    chat.add_argument("--seed", type=int, default=1, help="another seed, other conversations")
    chat.add_argument("--megabytes", type=float, default=40)
    chat.add_argument("--long-copies", type=float, default=20, help="their share; 6 once it copies")
    for name, run, text in (
        ("tokenizer", _tokenizer, "train the tokenizer; a new one means starting over"),
        ("encode", _encode, "write token files"),
    ):
        step(name, run, text).add_argument("--corpus", type=Path, required=True)
    train = step("train", _train, "train, or go on where the last call stopped")
    train.add_argument("--minutes", type=float, help="stop after this long (default: at the goal)")
    for key in ("tokens", "mtp-tokens", "workers", "context", "batch"):
        train.add_argument(f"--{key}", type=int)
    train.add_argument("--lr", type=float)
    judge = step("judge", _judge, "answer and score the held-out prompts")
    judge.add_argument("--limit", type=int, default=200, help="tokens an answer")
    export = step("export", _export, "write a Hugging Face checkpoint")
    export.add_argument("--check", action="store_true", help="compare with transformers")
    return parser


def main() -> None:
    args = _parser().parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
