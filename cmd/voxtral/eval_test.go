package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"voxtral/runtime"
)

func manifestOf(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func evalJSON(t *testing.T, r result) evalReport {
	t.Helper()
	var report evalReport
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &report), r.stderr)
	return report
}

// The rates are those of the edits that a text needs which differs from what is said in known places.
func TestEval(t *testing.T) {
	clip, err := filepath.Abs(hello)
	require.NoError(t, err)
	right, wrong := "She said that the children were in the garden with their mother.", "He said the children were in the big garden with their mother!"
	manifest := manifestOf(t, "clips.jsonl", fmt.Sprintf("{\"audio\":%q,\"text\":%q}\n\n{\"audio_filepath\":%q,\"text\":%q}\n", clip, right, clip, wrong))
	r := voxtral(t, "eval", "--json", "--device", "cpu", manifest)
	require.Equal(t, exitOK, r.code, r.stderr)
	run := evalJSON(t, r).Run
	require.Len(t, run.Clips, 2)
	require.Zero(t, run.Clips[0].WER.Percent)
	w := run.Clips[1].WER
	require.Equal(t, []int{1, 1, 1, 12}, []int{w.Sub, w.Del, w.Ins, w.Of})
	require.InDelta(t, 12.5, run.WER.Percent, 1e-9)
	require.InDelta(t, 0, run.WER.Interval.Low, 1e-9)
	require.InDelta(t, 25, run.WER.Interval.High, 1e-9)
	require.Positive(t, run.CER.Percent)
	require.Less(t, run.CER.Percent, run.WER.Percent)
	require.Positive(t, run.RTF)
	require.InDelta(t, 7.5, run.Seconds, 0.05)

	r = voxtral(t, "eval", "--device", "cpu", "--max-wer", "12.4", manifest)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "12.50 %, above --max-wer 12.4")
	require.Contains(t, r.stdout, "WER    12.50 % (95 % interval 0.00 to 25.00, seed 1): 1 substituted, 1 deleted, 1 inserted of 24 words")
	require.Equal(t, exitOK, voxtral(t, "eval", "--device", "cpu", "--max-wer", "12.6", manifest).code)
}

// Against itself a model does not drift, in another layout neither; packed to int4 it does, and a bound notices.
func TestEvalDrift(t *testing.T) {
	clip, err := filepath.Abs(hello)
	require.NoError(t, err)
	manifest := manifestOf(t, "clips.tsv", "audio\ttext\n"+clip+"\tnothing of this\n")
	same := evalJSON(t, voxtral(t, "eval", "--json", "--device", "cpu", "--kl", "--model", checkpoint, "--against", filepath.Join(checkpoint, "../huggingface"),
		"--max-wer-increase", "0", manifest)).Drift
	require.InDelta(t, 1, same.Agreement, 1e-12)
	require.Positive(t, same.Tokens)
	require.Empty(t, same.First)
	require.Zero(t, same.Increase)
	require.Equal(t, divergenceStats{Outputs: same.Tokens}, *same.KL)

	packed := filepath.Join(t.TempDir(), "int4.voxtral")
	require.Equal(t, exitOK, voxtral(t, "quantize", checkpoint, "-o", packed).code)
	drift := evalJSON(t, voxtral(t, "eval", "--json", "--device", "cpu", "--kl", "--model", packed, "--against", checkpoint, manifest)).Drift
	require.Less(t, drift.Agreement, 1.0)
	require.Len(t, drift.First, 1)
	require.NotEqual(t, drift.First[0].Token, drift.First[0].Baseline)
	require.Positive(t, drift.First[0].BaselineMargin)
	require.Equal(t, drift.First[0].Index+1, drift.KL.Outputs)
	require.Positive(t, drift.KL.Mean)
	require.GreaterOrEqual(t, drift.KL.Max, drift.KL.Mean)

	r := voxtral(t, "eval", "--device", "cpu", "--against-device", "cpu", "--max-wer-increase", "-1", manifest)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "0.00 points above the baseline's, more than --max-wer-increase -1")
	require.Contains(t, r.stdout, "agree; clips without a difference: 1 of 1")
}

func TestDiverge(t *testing.T) {
	ev := func(token int, margin float32) runtime.Event {
		return runtime.Event{Token: token, Margin: margin, Time: 80 * time.Millisecond}
	}
	a := []runtime.Event{ev(1, 1), ev(2, 0.5)}
	_, differs := diverge(a, a)
	require.False(t, differs)
	d, differs := diverge(a, []runtime.Event{ev(1, 3), ev(4, 0.25), ev(5, 1)})
	require.True(t, differs)
	require.Equal(t, divergence{Index: 1, Seconds: 0.08, Token: 2, Baseline: 4, Margin: 0.5, BaselineMargin: 0.25}, d)
	d, _ = diverge(a, a[:1])
	require.Equal(t, -1, d.Baseline)
}

// The divergence of (1/4, 3/4) from (1/2, 1/2) is ln(4/3) / 2; a constant added to all logits changes nothing.
func TestKLDivergence(t *testing.T) {
	p, q := []float32{7, 7}, []float32{0, float32(math.Log(3))}
	require.InDelta(t, 0.5*math.Log(4.0/3), klDivergence(p, q), 1e-7)
	require.Zero(t, klDivergence(q, q))
}

func TestEvalErrors(t *testing.T) {
	for _, c := range []struct {
		code       int
		args, want string
	}{
		{exitUsage, "eval", "no manifest"},
		{exitUsage, "eval --normalize french x", "english, basic or plain"},
		{exitUsage, "eval --max-wer -1 x", "--max-wer -1"},
		{exitUsage, "eval --max-wer NaN x", "--max-wer NaN"},
		{exitUsage, "eval --max-wer-increase 1 x", "needs a baseline"},
		{exitUsage, "eval --kl x", "needs a baseline"},
		{exitUsage, "eval --against-device tpu x", "--device tpu is unknown"},
		{exitFailed, "eval nowhere.tsv", "nowhere.tsv"},
		{exitFailed, "eval " + manifestOf(t, "a.tsv", "audio\ttext\n"), "names no audio"},
		{exitFailed, "eval " + manifestOf(t, "b.tsv", "a.wav\tone\nb.wav\n"), "b.tsv line 2: want an audio file, a tab and its text"},
		{exitFailed, "eval " + manifestOf(t, "c.jsonl", `{"audio":"a.wav"}`), `c.jsonl line 1: want "audio" and "text"`},
		{exitFailed, "eval --device cpu " + manifestOf(t, "d.tsv", "gone.wav\tone\n"), "gone.wav"},
	} {
		r := voxtral(t, strings.Fields(c.args)...)
		require.Equal(t, c.code, r.code, c.args)
		require.Empty(t, r.stdout, c.args)
		require.Contains(t, r.stderr, c.want, c.args)
	}
}
