"""Runs the Hugging Face implementation (fp32, CPU) on the demonstration model over its held-out clips.

    python demo_goldens.py MODEL [--clips ../../internal/golden/testdata/demo]

MODEL is a folder with demo.json (config, vocab) and demo-*.safetensors under state-dict names. Writes golden.json beside the
clips and prints the word error rate.
"""

import argparse
import csv
import json
import pathlib
import re

import numpy as np
import soundfile
import torch
import transformers
from safetensors.torch import load_file
from transformers import VoxtralRealtimeConfig, VoxtralRealtimeForConditionalGeneration

import reference as ref

SCHEMA = "voxtral-demo-golden/1"
OTHER_DELAYS = {2: 3, 12: 3}  # delay -> how many clips besides the run of all at delay 6
SPECIALS = 1000
MARGIN = 0.02  # a run nearer to a tie than this would make equality of tokens hang on rounding


def load(folder):
    about = json.loads((folder / "demo.json").read_text())
    config = VoxtralRealtimeConfig(**{k: v for k, v in about["config"].items() if k in ("audio_config", "text_config", "tie_word_embeddings")})
    config._attn_implementation = "eager"
    model = VoxtralRealtimeForConditionalGeneration(config).float()
    tensors = {k: v.float() for file in sorted(folder.glob("demo-*.safetensors")) for k, v in load_file(file).items()}
    missing, extra = model.load_state_dict(tensors, strict=False)
    assert set(missing) <= {"lm_head.weight"} and not extra, (missing, extra)
    model.tie_weights()
    return model.eval(), [bytes(b) for b in about["vocab"]]


def text_of(ids, vocab):
    return b"".join(vocab[i - SPECIALS] for i in ids if i >= SPECIALS).decode("utf-8", "replace").strip()


def words(s):
    return re.sub(r"[^a-z' ]", "", s.lower().replace("-", " ")).split()


def edits(want, got):
    row = list(range(len(got) + 1))
    for i, w in enumerate(want, 1):
        diagonal, row[0] = row[0], i
        for j, g in enumerate(got, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (w != g))
    return row[-1]


def transcribe(model, vocab, pcm, delay):
    audio = ref.encode(model, ref.log_mel(ref.pad(pcm, delay)))
    ids, logits = ref.greedy(model, audio, delay)
    margin = ref.margins(logits)
    return {
        "delay": delay,
        "text": text_of(ids, vocab),
        "tokens": ids,
        "eos": ids.count(ref.EOS),
        "min_margin": round(float(margin.min()), 5),
        "min_margin_at": int(margin.argmin()),
    }


def main():
    here = pathlib.Path(__file__).resolve().parent
    arg = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arg.add_argument("model", type=pathlib.Path)
    arg.add_argument("--clips", type=pathlib.Path, default=here / "../../internal/golden/testdata/demo")
    args = arg.parse_args()
    torch.set_num_threads(1)
    model, vocab = load(args.model)
    with open(args.clips / "manifest.tsv", newline="") as f:
        rows = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    runs, errors = [], {}
    for n, row in enumerate(rows):
        pcm, rate = soundfile.read(args.clips / row["file"], dtype="float32")
        assert rate == ref.RATE and pcm.ndim == 1, row["file"]
        for delay in [6] + [d for d, count in OTHER_DELAYS.items() if n % 20 == 0 and n // 20 < count]:
            run = {"file": row["file"], **transcribe(model, vocab, pcm, delay)}
            runs.append(run)
            if delay == 6:
                want = words(row["text"])
                e = errors.setdefault(row["file"].split("-")[0], np.zeros(2, int))
                e += edits(want, words(run["text"])), len(want)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    about = {"schema": SCHEMA, **versions, "dtype": "fp32, CPU, eager attention; weights stored bf16"}
    about["wer_at_delay_6"] = {k: {"edits": int(e), "words": int(n)} for k, (e, n) in errors.items()}
    head = json.dumps(about, indent=1)[:-2]
    lines = ",\n".join("  " + json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in runs)
    (args.clips / "golden.json").write_text(f'{head},\n "runs": [\n{lines}\n ]\n}}\n')
    for k, (e, n) in errors.items():
        print(f"{k}: WER {100 * e / n:.2f} % ({e} of {n} words)")
    print("smallest margins:", sorted(r["min_margin"] for r in runs)[:8], "EOS:", sum(r["eos"] for r in runs))
    if close := sorted({r["file"] for r in runs if r["min_margin"] < MARGIN}):
        raise SystemExit(f"margin below {MARGIN}: {', '.join(close)}; take their next draw in make_clips.py, then run this again")


if __name__ == "__main__":
    main()
