package main

import (
	"fmt"
	"math"
	"slices"

	"voxtral/internal/wer"
	"voxtral/runtime"
)

// evalDrift compares a run with its baseline on the same clips.
type evalDrift struct {
	Baseline  *evalRun         `json:"baseline"`
	Tokens    int              `json:"tokens"`                         // of the longer output of every clip
	Agreement float64          `json:"token_agreement"`                // equal tokens at equal places, of Tokens
	Same      int              `json:"same_clips"`                     // clips without any difference
	Increase  float64          `json:"wer_increase"`                   // percentage points above the baseline
	Interval  *wer.Interval    `json:"increase_interval_95,omitempty"` // in points
	First     []divergence     `json:"first_divergence"`               // of every clip that differs
	KL        *divergenceStats `json:"kl,omitempty"`                   // only with --kl
}

// divergenceStats is the Kullback-Leibler divergence of the predictions from the baseline's, in nats: 0 where both give
// every token the same probability. It covers the outputs of every clip up to its first difference, that one included, for
// there the inputs are the same.
type divergenceStats struct {
	Mean    float64 `json:"mean"`
	Max     float64 `json:"max"`
	Outputs int     `json:"outputs"`
}

func (s *divergenceStats) add(own, base *heardClip) error {
	n := min(len(own.events), len(base.events))
	if first, differs := diverge(own.events, base.events); differs {
		n = min(n, first.Index+1)
	}
	if len(own.logits) < n || len(base.logits) < n {
		return fmt.Errorf("the device shows logits of %d and %d of %d outputs", len(own.logits), len(base.logits), n)
	}
	for k := range n {
		if len(own.logits[k]) != len(base.logits[k]) {
			return fmt.Errorf("vocabularies of %d and %d tokens cannot be compared", len(own.logits[k]), len(base.logits[k]))
		}
		d := klDivergence(base.logits[k], own.logits[k])
		s.Mean = (s.Mean*float64(s.Outputs) + d) / float64(s.Outputs+1)
		s.Max, s.Outputs = max(s.Max, d), s.Outputs+1
	}
	return nil
}

// klDivergence is Σ p · (log p − log q) with p and q the softmax of the logits, in float64.
func klDivergence(p, q []float32) float64 {
	lp, lq := logSumExp(p), logSumExp(q)
	sum := 0.0
	for i := range p {
		logP := float64(p[i]) - lp
		sum += math.Exp(logP) * (logP - (float64(q[i]) - lq))
	}
	return max(sum, 0) // rounding may leave less than nothing
}

func logSumExp(x []float32) float64 {
	top, sum := float64(slices.Max(x)), 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}

// divergence is where two outputs of one clip first differ. Before it the inputs were the same, so the margins are
// comparable; after it the two models follow their own texts, and are not.
type divergence struct {
	File           string  `json:"file"`
	Index          int     `json:"index"` // of the output
	Seconds        float64 `json:"seconds"`
	Token          int     `json:"token"` // -1 where the output had ended
	Baseline       int     `json:"baseline_token"`
	Margin         float64 `json:"margin"` // best logit less second best
	BaselineMargin float64 `json:"baseline_margin"`
}

func newEvalDrift(own, base *heard, run, baseline *evalRun, seed uint64) *evalDrift {
	d := &evalDrift{Baseline: baseline, Increase: run.WER.Percent - baseline.WER.Percent, First: []divergence{}}
	equal := 0
	for i := range own.clips {
		a, b := own.clips[i].events, base.clips[i].events
		d.Tokens += max(len(a), len(b))
		for k := range min(len(a), len(b)) {
			if a[k].Token == b[k].Token {
				equal++
			}
		}
		if first, differs := diverge(a, b); differs {
			first.File = run.Clips[i].File
			d.First = append(d.First, first)
		} else {
			d.Same++
		}
	}
	d.Agreement = float64(equal) / float64(max(d.Tokens, 1))
	if interval, ok := wer.BootstrapDifference(run.words, baseline.words, seed); ok {
		d.Interval = inPercent(interval)
	}
	return d
}

func diverge(a, b []runtime.Event) (d divergence, differs bool) {
	for k := range max(len(a), len(b)) {
		d = divergence{Index: k, Token: -1, Baseline: -1}
		if k < len(a) {
			d.Token, d.Margin, d.Seconds = a[k].Token, float64(a[k].Margin), a[k].Time.Seconds()
		}
		if k < len(b) {
			d.Baseline, d.BaselineMargin, d.Seconds = b[k].Token, float64(b[k].Margin), b[k].Time.Seconds()
		}
		if d.Token != d.Baseline {
			return d, true
		}
	}
	return divergence{}, false
}

func (d *evalDrift) print(w *table, seed uint64) {
	w.row("\nbaseline\t%s on %s: WER %.2f %%, CER %.2f %%, RTF %.3f", d.Baseline.Model, d.Baseline.Device, d.Baseline.WER.Percent, d.Baseline.CER.Percent, d.Baseline.RTF)
	w.row("WER rises by\t%.2f points%s", d.Increase, intervalWords(d.Interval, seed))
	w.row("tokens\t%.2f %% of %d agree; clips without a difference: %d of %d", 100*d.Agreement, d.Tokens, d.Same, d.Same+len(d.First))
	if d.KL != nil {
		w.row("KL\t%.3g nats in the mean, %.3g at most, over %d outputs", d.KL.Mean, d.KL.Max, d.KL.Outputs)
	}
	for i, f := range d.First {
		label := ""
		if i == 0 {
			label = "first differs"
		}
		w.row("%s\t%s at %.2f s (output %d): token %d by %.3f, baseline %d by %.3f", label, f.File, f.Seconds, f.Index, f.Token, f.Margin, f.Baseline, f.BaselineMargin)
	}
}
