"""Small random checkpoints of the Voxtral Realtime architecture, written in the Hugging Face and in the Mistral layout."""

import base64
import json
import math
import pathlib
import re

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import VoxtralRealtimeConfig, VoxtralRealtimeForConditionalGeneration

SPECIALS = 1000
PIECES = (
    " the, of, and, to, a, in, is, it, that, was,ing,ed,er,ly,tion,ment, re, un,th,he,an,on,at,or,en,es,st,nd,ar,al, s, w, c,"
    " b, p, f, m, d, l, g, h, n,ou,ea,ee,oo,ch,sh,qu,ck,ll,ss,tt,.\n, I, you, we, they, word, time, day, year, way, man, thing,"
    " world, life, hand, part, child, eye,'s,'t,'re, -,?,!, 10, 20,é,ü,ñ,ß,日,本,語,…,—, “,”,Ω,я,д,😀, naïve, café"
).split(",")
# Halves of characters, so that decoding has to hold bytes back until a character is whole.
PIECE_BYTES = [p.encode() for p in PIECES] + ["日".encode()[:2], "😀".encode()[:2], "😀".encode()[2:], b"\xc3", b"\xe2\x80"]
IGNORED_RANKS = 7  # listed beyond the model's vocabulary, as in the real file
VOCAB = SPECIALS + 256 + len(PIECE_BYTES)

SHAPES = {
    "tiny-a": dict(
        audio=dict(hidden_size=64, intermediate_size=112, num_hidden_layers=2, num_attention_heads=3, head_dim=32, sliding_window=24),
        text=dict(hidden_size=80, intermediate_size=104, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=16, sliding_window=20),
        theta=1e6,
        eps=1e-5,
        shards=1,
        prefix="",
    ),
    "tiny-b": dict(
        audio=dict(hidden_size=40, intermediate_size=70, num_hidden_layers=3, num_attention_heads=2, head_dim=28, sliding_window=37),
        text=dict(hidden_size=56, intermediate_size=90, num_hidden_layers=3, num_attention_heads=5, num_key_value_heads=1, head_dim=12, sliding_window=31),
        theta=5e4,
        eps=1e-3,  # so large that a hard-coded one shows
        shards=2,
        prefix="model.",
    ),
}


def config(name):
    shape = SHAPES[name]
    rope = {"rope_type": "default", "rope_theta": shape["theta"]}
    audio = dict(shape["audio"], num_mel_bins=128, rope_parameters=rope, rms_norm_eps=shape["eps"], max_position_embeddings=1500)
    text = dict(
        shape["text"], vocab_size=VOCAB, rope_parameters=dict(rope), rms_norm_eps=shape["eps"], max_position_embeddings=131072,
        tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, pad_token_id=None,
    )  # fmt: skip
    return VoxtralRealtimeConfig(audio_config=audio, text_config=text)


def random_model(name, seed):
    """A model with bf16 weights in which every tensor matters: no zero bias, no unit norm, no flat attention."""
    model = VoxtralRealtimeForConditionalGeneration(config(name))
    gen = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=gen)
            if key.endswith("norm.weight"):
                value = 1 + 0.2 * noise
            elif key.endswith(".bias"):
                value = 0.15 * noise
            elif "embed_tokens" in key:
                value = 0.2 * noise  # far below the audio, else one token repeats for ever
                value[:SPECIALS] *= 0.7  # mostly text wins, so the output says something
                value[[32, 33]] /= 0.7
            else:
                gain = 1.0
                if re.search(r"(q|k)_proj", key):
                    gain = 1.6
                elif "conv" in key or "multi_modal" in key:
                    gain = 2.2
                elif "ada_rms_norm.linear2" in key:
                    gain = 1.2
                elif "language_model" in key and re.search(r"(o|down)_proj", key):
                    gain = 2.0
                value = gain * noise / math.sqrt(p[0].numel())
            p.copy_(value.to(torch.bfloat16).float())
    return model


def write_huggingface(model, name, folder):
    """config.json as save_pretrained writes it; tensors under the published names, or (prefix "model.") under those of the
    state dict, in one file or split in shards with an index."""
    shape = SHAPES[name]
    model.config.architectures = [type(model).__name__]
    model.config.dtype = "bfloat16"
    model.config.save_pretrained(folder)
    rename = published_name if shape["prefix"] == "" else str
    tensors = {rename(k): t.to(torch.bfloat16).contiguous() for k, t in model.state_dict().items() if k != "lm_head.weight"}
    if shape["shards"] == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    total = sum(t.numel() * 2 for t in tensors.values())
    parts, size = [[] for _ in range(shape["shards"])], 0
    for key in sorted(tensors):
        parts[size * shape["shards"] // total].append(key)
        size += tensors[key].numel() * 2
    where = {}
    for i, part in enumerate(parts):
        file = f"model-{i + 1:05d}-of-{shape['shards']:05d}.safetensors"
        save_file({k: tensors[k] for k in part}, folder / file, metadata={"format": "pt"})
        where.update({k: file for k in part})
    index = {"metadata": {"total_parameters": total // 2, "total_size": total}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


P = "mm_streams_embeddings.embedding_module."
W = P + "whisper_encoder."
NAMES = [
    (r"^language_model\.model\.embed_tokens\.", P + "tok_embeddings."),
    (r"^language_model\.model\.norm\.", "norm."),
    (r"^language_model\.model\.layers\.", "layers."),
    (r"^audio_tower\.embedder\.conv1\.", W + "conv_layers.0.conv."),
    (r"^audio_tower\.embedder\.conv2\.", W + "conv_layers.1.conv."),
    (r"^audio_tower\.norm\.", W + "transformer.norm."),
    (r"^audio_tower\.layers\.", W + "transformer.layers."),
    (r"^multi_modal_projector\.linear_1\.", P + "audio_language_projection.0."),
    (r"^multi_modal_projector\.linear_2\.", P + "audio_language_projection.2."),
    (r"\.self_attn_layer_norm\.|\.input_layernorm\.", ".attention_norm."),
    (r"\.final_layer_norm\.|\.post_attention_layernorm\.", ".ffn_norm."),
    (r"\.self_attn\.([qkvo])_proj\.", r".attention.w\1."),
    (r"\.mlp\.gate_proj\.", ".feed_forward.w1."),
    (r"\.mlp\.down_proj\.", ".feed_forward.w2."),
    (r"\.mlp\.up_proj\.", ".feed_forward.w3."),
    (r"\.ada_rms_norm\.linear1\.", ".ada_rms_norm_t_cond.0."),
    (r"\.ada_rms_norm\.linear2\.", ".ada_rms_norm_t_cond.2."),
]


def published_name(key):
    """State-dict name -> the name of the published Hugging Face file."""
    key = key.removeprefix("model.")
    return re.sub(r"^language_model\.(?!model\.)", "language_model.model.", key)


def interleave(t, head_dim):
    """Rows of each head from half-split rotary pairs (i, i+d/2) to adjacent pairs (2i, 2i+1)."""
    heads = t.shape[0] // head_dim
    return t.reshape(heads, 2, head_dim // 2, -1).transpose(1, 2).reshape(t.shape).contiguous()


def write_mistral(model, name, folder):
    shape = SHAPES[name]
    audio, text = shape["audio"], shape["text"]
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for key, t in model.state_dict().items():
        if not key.startswith("model."):
            continue
        key = published_name(key)
        if re.search(r"self_attn\.[qk]_proj\.", key):
            t = interleave(t, (audio if key.startswith("audio_tower") else text)["head_dim"])
        for pattern, new in NAMES:
            key = re.sub(pattern, new, key)
        tensors[key] = t.to(torch.bfloat16).contiguous()
    save_file(tensors, folder / "consolidated.safetensors")
    params = {
        "dim": text["hidden_size"],
        "n_layers": text["num_hidden_layers"],
        "head_dim": text["head_dim"],
        "hidden_dim": text["intermediate_size"],
        "n_heads": text["num_attention_heads"],
        "n_kv_heads": text["num_key_value_heads"],
        "use_biases": False,
        "causal": True,
        "rope_theta": shape["theta"],
        "norm_eps": shape["eps"],
        "vocab_size": VOCAB,
        "model_parallel": 1,
        "tied_embeddings": True,
        "sliding_window": text["sliding_window"],
        "model_max_length": 131072,
        "multimodal": {
            "whisper_model_args": {
                "encoder_args": {
                    "audio_encoding_args": {
                        "sampling_rate": 16000,
                        "frame_rate": 12.5,
                        "num_mel_bins": 128,
                        "hop_length": 160,
                        "window_size": 400,
                        "chunk_length_s": None,
                        "global_log_mel_max": 1.5,
                        "transcription_format": "streaming",
                    },
                    "dim": audio["hidden_size"],
                    "n_layers": audio["num_hidden_layers"],
                    "head_dim": audio["head_dim"],
                    "hidden_dim": audio["intermediate_size"],
                    "n_heads": audio["num_attention_heads"],
                    "vocab_size": 131072,
                    "n_kv_heads": audio["num_attention_heads"],
                    "use_biases": True,
                    "use_cache": False,
                    "rope_theta": shape["theta"],
                    "causal": True,
                    "norm_eps": shape["eps"],
                    "pos_embed": "rope",
                    "max_source_positions": None,
                    "ffn_type": "swiglu",
                    "norm_type": "rms_norm",
                    "sliding_window": audio["sliding_window"],
                },
                "downsample_args": {"downsample_factor": 4},
            }
        },
        "ada_rms_norm_t_cond": True,
        "ada_rms_norm_t_cond_dim": 32,
    }
    (folder / "params.json").write_text(json.dumps(params, indent=2) + "\n")


def write_tekken(folder):
    def entry(rank, b):
        try:
            text = b.decode()
        except UnicodeDecodeError:
            text = None
        return {"rank": rank, "token_bytes": base64.b64encode(b).decode(), "token_str": text}

    pieces = [bytes([i]) for i in range(256)] + PIECE_BYTES + [f" unused{i}".encode() for i in range(IGNORED_RANKS)]
    specials = {0: "<unk>", 1: "<s>", 2: "</s>", 11: "<pad>", 24: "[AUDIO]", 25: "[BEGIN_AUDIO]", 32: "[STREAMING_PAD]", 33: "[STREAMING_WORD]"}
    tekken = {
        "config": {
            "pattern": r"[^\s]+|\s+",
            "num_vocab_tokens": len(pieces),
            "default_vocab_size": VOCAB,
            "default_num_special_tokens": SPECIALS,
            "version": "v13",
        },
        "vocab": [entry(rank, b) for rank, b in enumerate(pieces)],
        "special_tokens": [{"rank": rank, "token_str": s, "is_control": True} for rank, s in specials.items()],
        "audio": {
            "sampling_rate": 16000,
            "frame_rate": 12.5,
            "audio_encoding_config": {"num_mel_bins": 128, "hop_length": 160, "window_size": 400},
            "chunk_length_s": None,
            "transcription_format": "streaming",
            "transcription_delay_ms": 480,
            "streaming_look_ahead_ms": 2.5,
            "streaming_look_back_ms": 52.5,
            "streaming_n_left_pad_tokens": 32,
        },
    }
    (folder / "tekken.json").write_text(json.dumps(tekken, indent=1, ensure_ascii=False) + "\n")


def write(name, seed, root: pathlib.Path):
    model = random_model(name, seed)
    hf, mistral = root / name / "huggingface", root / name / "mistral"
    hf.mkdir(parents=True, exist_ok=True)
    write_huggingface(model, name, hf)
    write_mistral(model, name, mistral)
    write_tekken(hf)
    write_tekken(mistral)
    for file in (*hf.iterdir(), *mistral.iterdir()):
        file.chmod(0o644)
    _check_equal(hf, mistral, SHAPES[name])
    return hf


def _check_equal(hf, mistral, shape):
    """Every value of one layout is in the other: same count of tensors, same multiset of values."""

    def values(folder):
        out = []
        for file in sorted(folder.glob("*.safetensors")):
            with safe_open(file, "pt") as f:
                out += [(tuple(t.shape), t.float().flatten().sort().values) for t in (f.get_tensor(k) for k in f.keys())]
        return sorted(out, key=lambda x: (x[0], x[1].sum().item()))

    a, b = values(hf), values(mistral)
    layers = shape["audio"]["num_hidden_layers"] * 13 + shape["text"]["num_hidden_layers"] * 11
    assert len(a) == len(b) == layers + 4 + 1 + 2 + 1 + 1, (len(a), len(b))
    assert all(x[0] == y[0] and torch.equal(x[1], y[1]) for x, y in zip(a, b))
