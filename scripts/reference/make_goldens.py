"""Makes the small random checkpoints and the goldens of the Hugging Face implementation on them (fp32, CPU).

    python make_goldens.py [--out ../../internal/golden/testdata]
"""

import argparse
import json
import pathlib
import platform
import warnings

import numpy as np
import safetensors
import torch
import transformers
from safetensors.numpy import save

import checkpoints
import reference as ref
import signals

SCHEMA = "voxtral-golden/1"
SEED = {"tiny-a": 12, "tiny-b": 31}  # the first tried; raised by one until the runs make good goldens
AUDIO_SEED = 5
SAMPLES = 52001  # 3.25 s: no multiple of a hop or a token, and longer than every window
DELAYS = [1, 6, 12, 30]
FULL = 6  # the delay whose intermediate values are kept
MIN_MARGIN = 2e-3
MIN_DISTINCT = 10  # different tokens in each run, so that a frozen decoder fails
TOLERANCE = 1e-4


def f32(t):
    return np.ascontiguousarray(np.asarray(t, dtype=np.float32))


def i32(t):
    return np.asarray(t, dtype=np.int32)


def write(path, tensors, **about):
    meta = {
        "schema": SCHEMA,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": np.__version__,
        "safetensors": safetensors.__version__,
        "python": platform.python_version(),
        "dtype": "fp32, CPU, eager attention; weights stored bf16",
    }
    raw = save(tensors, metadata={**meta, **{k: str(v) for k, v in about.items()}})
    # The library orders the metadata by chance; sorted, a second run gives the same bytes.
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + size :])
    print(f"{path}: {path.stat().st_size} bytes, {len(tensors)} tensors")


def mel64(samples):
    """The log-mel in float64, as a yardstick for the float32 one."""
    x = torch.from_numpy(np.asarray(samples, np.float64))
    power = torch.stft(x, 400, 160, window=torch.hann_window(400, dtype=torch.float64), return_complex=True)[..., :-1].abs() ** 2
    filters = torch.from_numpy(ref.VoxtralRealtimeFeatureExtractor().mel_filters)
    y = (filters.T @ power).clamp(min=1e-10).log10().clamp(min=-6.5)
    return ((y + 4) / 4).T


def make_audio(path):
    pcm = signals.speechlike(AUDIO_SEED, SAMPLES)
    tensors = {"pcm": pcm}
    padded = ref.pad(pcm.astype(np.float32) / 32768, FULL)
    mel = ref.log_mel(padded)
    # Silence on both sides is one value; the rows kept start in it and end in it.
    first = ref.LEFT * 8 - 4
    rows = np.arange(first, first + SAMPLES // 160 + 16)
    outside = np.delete(mel.numpy(), rows, axis=0)
    assert np.allclose(outside, -0.625, atol=1e-6)
    tensors["d6.mel"], tensors["d6.mel.rows"] = f32(mel[rows]), i32(rows)
    worst = {"pcm": float((mel - mel64(padded)).abs().max())}
    for name, x in signals.mel_cases(AUDIO_SEED).items():
        samples = x.astype(np.float32) / 32768
        mel = ref.log_mel(samples)
        assert mel.shape == (len(x) // 160, 128)
        tensors[f"mel.{name}.pcm"], tensors[f"mel.{name}"] = x, f32(mel)
        worst[name] = float((mel - mel64(samples)).abs().max())
    filters = ref.VoxtralRealtimeFeatureExtractor().mel_filters
    assert filters.shape == (201, 128)
    print("mel, float32 against float64, max |difference|:", {k: f"{v:.1e}" for k, v in worst.items()})
    about = "log-mel of torch.stft through the feature extractor; pcm is int16, divided by 32768 before use"
    write(path, tensors, seed=AUDIO_SEED, what=about, frames_d6=len(padded) // 160)
    return pcm.astype(np.float32) / 32768


def near(name, got, want):
    err = float((got - want).abs().max() / want.abs().max())
    assert err < TOLERANCE, f"{name}: relative difference {err:.2e}"
    return err


def run_delay(model, pcm, delay):
    """The golden tensors of one delay, or None where the run makes a poor golden: a greedy step near a tie, or one token over and over."""
    text, tower = model.model.language_model, model.model.audio_tower
    mel = ref.log_mel(ref.pad(pcm, delay))
    modules = {"enc.norm": tower.norm, "adapter": model.model.multi_modal_projector}
    modules |= {f"enc.layer{i}": layer for i, layer in enumerate(tower.layers)}
    rec = ref.Recorder(modules)
    stem = tower.embedder(mel.T[None]).detach()[0]
    audio = ref.encode(model, mel)
    enc = rec.close() | {"enc.stem": stem}
    ids, logits = ref.greedy(model, audio, delay)
    margin = ref.margins(logits)
    if margin.min() < MIN_MARGIN or len(set(ids)) < MIN_DISTINCT:
        return None
    prompt = ref.prompt(delay)
    n_audio = audio.shape[1]
    assert n_audio == mel.shape[0] // 8 and len(ids) == n_audio - len(prompt) + 1

    modules = {"dec.norm": text.norm} | {f"dec.layer{i}": layer for i, layer in enumerate(text.layers)}
    modules |= {f"dec.ada{i}": layer.ada_rms_norm for i, layer in enumerate(text.layers)}
    rec = ref.Recorder(modules)
    forced = ref.teacher_forced(model, audio, delay, ids)
    dec = rec.close()
    near("cached and uncached logits", forced[len(prompt) - 1 :], logits)
    own = ref.generate(model, mel, delay)
    assert own == ids[: len(own)] and len(own) == len(ids) - 1, "generate() disagrees with the loop of forward passes"

    p = f"d{delay}."
    top = logits.topk(5, dim=-1)
    rows = [0, len(ids) // 2, len(ids) - 1]
    out = {p + "prompt": i32(prompt), p + "tokens": i32(ids), p + "margins": f32(margin)}
    out |= {p + "top.ids": i32(top.indices), p + "top.logits": f32(top.values)}
    out |= {p + "dec.tcond": f32(ref.condition(model, delay)[0])}
    out |= {p + k: f32(v) for k, v in dec.items() if ".ada" in k}
    if delay == FULL:
        rows = sorted(set(np.linspace(0, len(ids) - 1, 10).astype(int).tolist()))
        frames = mel.shape[0] // 2
        first = ref.LEFT * 4
        keep = sorted({0, 1, 2, 23, 24, 25, 36, 37, 38, *range(first - 4, first + 4), *range(first, frames, 3), *range(frames - 4, frames)})
        out[p + "enc.rows"] = i32(keep)
        out |= {p + k: f32(v[keep]) for k, v in enc.items() if k != "adapter"}
        out[p + "adapter"] = f32(enc["adapter"])
        out |= {p + k: f32(v) for k, v in dec.items() if ".ada" not in k}
    out[p + "logits.rows"], out[p + "logits"] = i32(rows), f32(logits[rows])
    spread = len(set(ids)), ids.count(ref.EOS), sum(i >= 1000 for i in ids)
    print(f"  delay {delay}: {len(ids)} tokens, {spread[0]} distinct, {spread[2]} text, EOS {spread[1]} times, smallest margin {margin.min():.4f}")
    return out


def make_checkpoint(name, root, pcm):
    for seed in range(SEED[name], SEED[name] + 100):
        print(name, "seed", seed)
        model = ref.load(checkpoints.write(name, seed, root))
        tensors = {}
        for delay in DELAYS:
            part = run_delay(model, pcm, delay)
            if part is None:
                break
            tensors |= part
        else:
            about = f"Hugging Face greedy run over pcm of audio.safetensors on {name}"
            shape = json.dumps(checkpoints.SHAPES[name])
            write(root / name / "golden.safetensors", tensors, seed=seed, what=about, shape=shape)
            return
    raise SystemExit(f"{name}: no seed makes good goldens")


def main():
    here = pathlib.Path(__file__).resolve().parent
    arg = argparse.ArgumentParser(description=__doc__)
    arg.add_argument("--out", type=pathlib.Path, default=here / "../../internal/golden/testdata")
    root = arg.parse_args().out.resolve()
    root.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    pcm = make_audio(root / "audio.safetensors")
    with torch.no_grad():
        for name in checkpoints.SHAPES:
            make_checkpoint(name, root, pcm)


if __name__ == "__main__":
    main()
