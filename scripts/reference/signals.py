"""Synthetic audio for the goldens: int16 samples, made from a seed, no recording involved."""

import numpy as np

RATE = 16000


def _int16(x):
    return np.clip(np.round(x * 32767), -32768, 32767).astype(np.int16)


def _voiced(rng, n, f0, f1, formants):
    """A harmonic sweep from f0 to f1 Hz under resonances at the formants, with vibrato and an attack and a decay."""
    t = np.arange(n) / RATE
    f = np.linspace(f0, f1, n) * (1 + 0.02 * np.sin(2 * np.pi * 5 * t))
    phase = 2 * np.pi * np.cumsum(f) / RATE
    x = np.zeros(n)
    for h in range(1, 40):
        if h * max(f0, f1) > 7600:
            break
        gain = sum(np.exp(-(((h * f - c) / w) ** 2)) for c, w in formants) + 0.02
        x += gain * np.sin(h * phase + rng.uniform(0, 6.28)) / np.sqrt(h)
    edge = np.minimum(1, np.minimum(np.arange(n), np.arange(n)[::-1]) / (0.02 * RATE))
    return x * edge


def speechlike(seed, n):
    """Voiced sweeps, noise bursts and pauses over a low noise floor; peak 0.6."""
    rng = np.random.default_rng(seed)
    x = np.zeros(n)
    at = int(0.05 * RATE)
    while at < n - 2000:
        length = min(int(rng.uniform(0.08, 0.3) * RATE), n - at)
        kind = rng.integers(4)
        if kind < 2:
            formants = [(rng.uniform(250, 900), 160), (rng.uniform(900, 2400), 220), (rng.uniform(2300, 3400), 300)]
            x[at : at + length] = _voiced(rng, length, rng.uniform(90, 250), rng.uniform(90, 250), formants)
        elif kind == 2:
            noise = rng.standard_normal(length)
            x[at : at + length] = 0.5 * np.convolve(noise, [1, -rng.uniform(0.2, 0.95)], "same") * np.hanning(length)
        at += length + (int(rng.uniform(0.02, 0.2) * RATE) if rng.random() < 0.4 else 0)
    x = 0.6 * x / np.abs(x).max()
    return _int16(x + 0.001 * rng.standard_normal(n))


def mel_cases(seed):
    """Name -> int16 samples, for the mel alone: both ends reflect, lengths off the hop, extremes of level."""
    rng = np.random.default_rng(seed)
    n = 4000
    square = np.where((np.arange(3203) // 37) % 2 == 0, 32767, -32768).astype(np.int16)
    click = np.zeros(1600, np.int16)
    click[[0, 700, 1599]] = 32767
    return {
        "speech": speechlike(seed + 1, n + 77),
        "noise": _int16(0.25 * rng.standard_normal(2777)),
        "silence": np.zeros(1600, np.int16),
        "square": square,
        "clicks": click,
        "quiet": _int16(0.002 * rng.standard_normal(1600)),
        "short": _int16(0.3 * rng.standard_normal(321)),
    }
