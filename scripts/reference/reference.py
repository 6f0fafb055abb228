"""The Hugging Face implementation, run the way the specification runs the model: padding, prompt, greedy decoding."""

import pathlib

import numpy as np
import torch
from transformers import VoxtralRealtimeForConditionalGeneration
from transformers.cache_utils import DynamicCache
from transformers.models.voxtral_realtime.feature_extraction_voxtral_realtime import VoxtralRealtimeFeatureExtractor

RATE, TOKEN = 16000, 1280
LEFT, EXTRA = 32, 11
BOS, EOS, PAD = 1, 2, 32


def load(folder: pathlib.Path):
    model, info = VoxtralRealtimeForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    bad = {k: v for k, v in info.items() if v}
    assert not bad, f"{folder}: the checkpoint does not load cleanly: {bad}"
    return model.eval()


def pad(pcm, delay):
    """float32 samples -> left padding, the samples, right padding to whole tokens and delay + 11 more."""
    right = -len(pcm) % TOKEN + (delay + EXTRA) * TOKEN
    return np.concatenate([np.zeros(LEFT * TOKEN, np.float32), pcm, np.zeros(right, np.float32)])


def prompt(delay):
    return [BOS] + [PAD] * (LEFT + delay)


def log_mel(samples):
    """[T, 128] of already padded samples, by the feature extractor (torch.stft, center, reflect, last frame dropped)."""
    features = VoxtralRealtimeFeatureExtractor()(samples, sampling_rate=RATE, return_tensors="pt", return_attention_mask=False)
    return features.input_features[0].T.contiguous()


class Recorder:
    """Collects the outputs of chosen modules by name while a forward pass runs."""

    def __init__(self, modules):
        self.out = {}
        self.hooks = [m.register_forward_hook(self._hook(name)) for name, m in modules.items()]

    def _hook(self, name):
        def keep(_, __, output):
            t = output if torch.is_tensor(output) else output[0]
            self.out[name] = t.detach()[0].clone()

        return keep

    def close(self):
        for h in self.hooks:
            h.remove()
        return self.out


@torch.no_grad()
def encode(model, mel):
    """Audio embeddings [1, n_audio, H] of a mel [T, 128], in one pass without a cache."""
    return model.model.get_audio_features(input_features=mel.T[None], use_cache=False, return_dict=True).pooler_output


@torch.no_grad()
def condition(model, delay):
    return model.model.time_embedding(torch.full((1,), float(delay)))[None]


@torch.no_grad()
def greedy(model, audio, delay):
    """Prompt in one pass, then one position at a time with the cache, to the last audio position; EOS does not stop it.

    Returns the generated ids (one for every position from the end of the prompt to n_audio - 1) and their logits."""
    text, embed = model.model.language_model, model.get_input_embeddings()
    t_cond, cache = condition(model, delay), DynamicCache(config=model.config.text_config)
    feed, at, ids, rows = prompt(delay), 0, [], []
    while at < audio.shape[1]:
        x = embed(torch.tensor([feed])) + audio[:, at : at + len(feed)]
        h = text(inputs_embeds=x, past_key_values=cache, use_cache=True, t_cond=t_cond).last_hidden_state
        at += len(feed)
        rows.append(model.lm_head(h[0, -1]))
        feed = [int(rows[-1].argmax())]
        ids += feed
    return ids, torch.stack(rows)


@torch.no_grad()
def teacher_forced(model, audio, delay, ids):
    """One pass without a cache over the prompt and the generated ids but the last; logits [n_audio, V]."""
    fed = prompt(delay) + ids[:-1]
    assert len(fed) == audio.shape[1]
    x = model.get_input_embeddings()(torch.tensor([fed])) + audio
    out = model.model.language_model(inputs_embeds=x, use_cache=False, t_cond=condition(model, delay))
    return model.lm_head(out.last_hidden_state[0])


@torch.no_grad()
def generate(model, mel, delay):
    """The ids of the library's own generate()."""
    ids = torch.tensor([prompt(delay)])
    out = model.generate(
        input_ids=ids, input_features=mel.T[None], num_delay_tokens=delay, do_sample=False, eos_token_id=None, pad_token_id=11
    )
    return out[0, ids.shape[1] :].tolist()


def margins(logits):
    top = logits.topk(2, dim=-1).values
    return top[:, 0] - top[:, 1]
