package main

import (
	"fmt"
	"io"
	"time"

	"voxtral/internal/wer"
)

// evalReport is what eval prints. Rates are in percent.
type evalReport struct {
	Manifest  string         `json:"manifest"`
	Normalize wer.Normalizer `json:"normalize"`
	Run       *evalRun       `json:"run"`
	Drift     *evalDrift     `json:"drift,omitempty"`
	seed      uint64
}

// evalRun is one model on one device.
type evalRun struct {
	Model   string       `json:"model"`
	Device  string       `json:"device"`
	DelayMS int64        `json:"delay_ms"`
	Seconds float64      `json:"audio_seconds"`
	RTF     float64      `json:"rtf"` // seconds of work for a second of audio, without reading files
	WER     errorRate    `json:"wer"`
	CER     errorRate    `json:"cer"`
	Clips   []evalResult `json:"clips"`
	words   []wer.Counts
}

type errorRate struct {
	Percent  float64       `json:"percent"`
	Interval *wer.Interval `json:"interval_95,omitempty"` // none for a single clip
	Sub      int           `json:"substituted"`
	Del      int           `json:"deleted"`
	Ins      int           `json:"inserted"`
	Of       int           `json:"of"`
}

type evalResult struct {
	File    string    `json:"file"`
	Text    string    `json:"text"`
	Heard   string    `json:"heard"`
	Seconds float64   `json:"audio_seconds"`
	RTF     float64   `json:"rtf"`
	WER     errorRate `json:"wer"`
	CER     errorRate `json:"cer"`
}

func newEvalRun(h *heard, clips []evalClip, norm wer.Normalizer, seed uint64) *evalRun {
	r := &evalRun{Model: h.model, Device: h.device, DelayMS: h.delay.Milliseconds()}
	var chars []wer.Counts
	var audio, spent time.Duration
	for i, clip := range clips {
		got := &h.clips[i]
		ref, hyp := norm.Words(clip.text), norm.Words(got.text)
		r.words = append(r.words, wer.Compute(ref, hyp))
		chars = append(chars, wer.Compute(wer.Chars(ref), wer.Chars(hyp)))
		audio, spent = audio+got.audio, spent+got.spent
		r.Clips = append(r.Clips, evalResult{
			File: clip.name, Text: clip.text, Heard: got.text, Seconds: got.audio.Seconds(), RTF: rtf(got.spent, got.audio),
			WER: rateOf(r.words[i:i+1], seed), CER: rateOf(chars[i:i+1], seed),
		})
	}
	r.Seconds, r.RTF = audio.Seconds(), rtf(spent, audio)
	r.WER, r.CER = rateOf(r.words, seed), rateOf(chars, seed)
	return r
}

func rtf(spent, audio time.Duration) float64 { return spent.Seconds() / max(audio.Seconds(), 1e-3) }

func rateOf(clips []wer.Counts, seed uint64) errorRate {
	var sum wer.Counts
	for _, c := range clips {
		sum = sum.Add(c)
	}
	e := errorRate{Percent: 100 * sum.Rate(), Sub: sum.Sub, Del: sum.Del, Ins: sum.Ins, Of: sum.Ref}
	if interval, ok := wer.Bootstrap(clips, seed); ok {
		e.Interval = inPercent(interval)
	}
	return e
}

func inPercent(i wer.Interval) *wer.Interval {
	return &wer.Interval{Low: 100 * i.Low, High: 100 * i.High}
}

func (r *evalReport) print(out io.Writer) error {
	var w table
	w.row("clip\tseconds\tWER %%\tCER %%\tsub\tdel\tins\twords\tRTF")
	for _, c := range r.Run.Clips {
		w.row("%s\t%.2f\t%.2f\t%.2f\t%d\t%d\t%d\t%d\t%.3f", c.File, c.Seconds, c.WER.Percent, c.CER.Percent, c.WER.Sub, c.WER.Del, c.WER.Ins, c.WER.Of, c.RTF)
	}
	if err := w.write(out); err != nil {
		return err
	}
	w = table{}
	w.row("\nmodel\t%s on %s, delay %d ms, texts normalised: %s", r.Run.Model, r.Run.Device, r.Run.DelayMS, r.Normalize)
	w.row("WER\t%s", r.Run.WER.words("words", r.seed))
	w.row("CER\t%s", r.Run.CER.words("characters", r.seed))
	w.row("RTF\t%.3f over %.1f s of audio (clips: %d)", r.Run.RTF, r.Run.Seconds, len(r.Run.Clips))
	if r.Drift != nil {
		r.Drift.print(&w, r.seed)
	}
	return w.write(out)
}

func (e errorRate) words(unit string, seed uint64) string {
	return fmt.Sprintf("%.2f %%%s: %d substituted, %d deleted, %d inserted of %d %s", e.Percent, intervalWords(e.Interval, seed), e.Sub, e.Del, e.Ins, e.Of, unit)
}

func intervalWords(i *wer.Interval, seed uint64) string {
	if i == nil {
		return " (one clip has no interval)"
	}
	return fmt.Sprintf(" (95 %% interval %.2f to %.2f, seed %d)", i.Low, i.High, seed)
}
