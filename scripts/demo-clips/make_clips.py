"""Makes the held-out clips of the demonstration model: our own sentences, which its training never saw, spoken by espeak-ng
and flite, 16 kHz 16-bit mono FLAC, peak 0.6, with a manifest.

    python make_clips.py --out ../../internal/golden/testdata/demo
    python make_clips.py --hello ../../examples/hello.wav               # the clip of the first command in the README

Needs the programs espeak-ng (1.51), flite (2.2), sox and flac support in sox.
"""

import argparse
import pathlib
import random
import subprocess
import tempfile

SENTENCES = pathlib.Path(__file__).resolve().parent / "sentences.txt"
PER_ENGINE = 30
ESPEAK_VARIANTS = ",,,+m1,+m2,+m3,+m4,+m7,+m8,+f1,+f2,+f3,+f4,+f5,+klatt,+Alex,+Andy,+Annie,+belinda,+david,+linda,+mike,+paul,+steph".split(",")
ESPEAK_LANGUAGES = ["en-us", "en-us", "en-us", "en-gb"]
FLITE_VOICES = ["slt", "rms", "awb", "kal16"]
DRAW = {"espeak-24": 2}  # clip -> which draw of its voice is taken; the first unless its golden came too near a tie (see README.md)
HELLO = "She said that the children were in the garden with their mother."


def jobs():
    """(name, voice, command that writes the wav given as last argument, sentence) of every clip."""
    sentences = SENTENCES.read_text().splitlines()
    if len(sentences) != 2 * PER_ENGINE:
        raise SystemExit(f"{SENTENCES}: {len(sentences)} sentences, want {PER_ENGINE} for espeak-ng, then {PER_ENGINE} for flite")
    for i, s in enumerate(sentences[:PER_ENGINE]):
        name = f"espeak-{i:02d}"
        rng = draws(name)
        voice = rng.choice(ESPEAK_LANGUAGES) + rng.choice(ESPEAK_VARIANTS)
        rate, pitch = rng.randint(130, 190), rng.randint(25, 75)
        yield name, f"espeak-ng {voice} rate {rate} pitch {pitch}", ["espeak-ng", "-v", voice, "-s", str(rate), "-p", str(pitch), s, "-w"], s
    for i, s in enumerate(sentences[PER_ENGINE:]):
        name = f"flite-{i:02d}"
        voice, stretch = FLITE_VOICES[i % len(FLITE_VOICES)], f"{draws(name).uniform(0.85, 1.2):.2f}"
        yield name, f"flite {voice} stretch {stretch}", ["flite", "-voice", voice, "--setf", f"duration_stretch={stretch}", "-t", s, "-o"], s


def draws(name):
    """The clip's own random numbers, so that drawing one clip again leaves the others alone."""
    return random.Random(f"{name} draw {DRAW.get(name, 1)}")


def speak(command, out):
    """Runs the synthesizer and writes 16 kHz, 16 bit, mono, peak 0.6, 0.3 s of silence after it; without dither, to repeat."""
    with tempfile.TemporaryDirectory() as tmp:
        wav = f"{tmp}/voice.wav"
        subprocess.run([*command, wav], check=True, stdout=subprocess.DEVNULL)
        effects = ["gain", "-6", "rate", "-v", "16000", "gain", "-n", "-4.437", "pad", "0", "0.3"]
        subprocess.run(["sox", "-D", wav, "-b", "16", "-c", "1", *(["-C", "8"] if out.suffix == ".flac" else []), str(out), *effects], check=True)


def main():
    arg = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arg.add_argument("--out", type=pathlib.Path, help="folder for the held-out clips")
    arg.add_argument("--hello", type=pathlib.Path, help="file for the one clip of the examples, WAV")
    args = arg.parse_args()
    if args.hello:
        args.hello.parent.mkdir(parents=True, exist_ok=True)
        speak(["espeak-ng", "-v", "en-us", "-s", "150", "-p", "50", HELLO, "-w"], args.hello)
    if not args.out:
        return
    args.out.mkdir(parents=True, exist_ok=True)
    rows = ["file\ttext\tvoice"]
    for name, voice, command, text in jobs():
        speak(command, args.out / f"{name}.flac")
        rows.append(f"{name}.flac\t{text}\t{voice}")
    (args.out / "manifest.tsv").write_text("\n".join(rows) + "\n")
    print(f"{len(rows) - 1} clips, {sum(f.stat().st_size for f in args.out.glob('*.flac'))} bytes")


if __name__ == "__main__":
    main()
