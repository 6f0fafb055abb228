package runtime

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// feedBy feeds pcm in pieces of n samples.
func feedBy(t testing.TB, s *Session, pcm []float32, n int) []Event {
	for piece := range slices.Chunk(pcm, n) {
		require.NoError(t, s.Feed(piece))
	}
	require.NoError(t, s.Finish())
	return slices.Collect(s.Events())
}

// s16 is pcm as 16-bit little-endian bytes, and the samples that those bytes stand for.
func s16(pcm []float32) (raw []byte, exact []float32) {
	for _, v := range pcm {
		i := int16(v * 32767)
		raw = append(raw, byte(i), byte(i>>8))
		exact = append(exact, float32(i)/32768)
	}
	return raw, exact
}

// However the audio is cut, the tokens, texts, times and margins are the same.
func TestChunkInvariance(t *testing.T) {
	for name, dev := range devices(t) {
		for _, ckpt := range checkpoints {
			t.Run(name+"/"+ckpt, func(t *testing.T) {
				e := openEngine(t, openModel(t, fixture(t, ckpt, "mistral")), dev)
				s := openSession(t, e, delay(6))
				raw, pcm := s16(load(t, "audio.safetensors").PCM("pcm"))
				want := run(t, s, pcm)
				require.NotEmpty(t, want)
				for _, n := range []int{1, 160, 1279, 1280, 4000, 20000} {
					s.Reset()
					require.Equal(t, want, feedBy(t, s, pcm, n), "pieces of %d samples", n)
				}
				for _, n := range []int{1, 3, 2559} {
					s.Reset()
					for piece := range slices.Chunk(raw, n) {
						_, err := s.Write(piece)
						require.NoError(t, err)
					}
					require.NoError(t, s.Finish())
					require.Equal(t, want, slices.Collect(s.Events()), "pieces of %d bytes", n)
				}
			})
		}
	}
}

// Random cuts, at random delays, with events taken at random moments.
func TestRandomCuts(t *testing.T) {
	dev := devices(t)["cpu"]
	e := openEngine(t, openModel(t, fixture(t, "tiny-b", "huggingface")), dev)
	pcm := load(t, "audio.safetensors").PCM("pcm")[:30000]
	rapid.Check(t, func(rt *rapid.T) {
		s, err := e.NewSession(delay(rapid.SampledFrom([]int{1, 2, 15, 30}).Draw(rt, "delay")))
		require.NoError(rt, err)
		defer s.Close()
		n := rapid.IntRange(0, len(pcm)).Draw(rt, "samples")
		want := run(t, s, pcm[:n])
		s.Reset()
		var got []Event
		for at := 0; at < n; {
			step := min(rapid.IntRange(0, 9000).Draw(rt, "piece"), n-at)
			require.NoError(rt, s.Feed(pcm[at:at+step]))
			at += step
			if rapid.Bool().Draw(rt, "take") {
				got = slices.AppendSeq(got, s.Events())
			}
		}
		require.NoError(rt, s.Finish())
		got = slices.AppendSeq(got, s.Events())
		require.Equal(rt, text(want), text(got))
		require.Equal(rt, tokens(want), tokens(got))
	})
}

func text(events []Event) string {
	var b strings.Builder
	for _, ev := range events {
		b.WriteString(ev.Text)
	}
	return b.String()
}

// Two sessions on one engine do not disturb each other, interleaved or side by side.
func TestSessionsAreIndependent(t *testing.T) {
	for name, dev := range devices(t) {
		t.Run(name, func(t *testing.T) {
			e := openEngine(t, openModel(t, fixture(t, "tiny-a", "mistral")), dev)
			pcm := load(t, "audio.safetensors").PCM("pcm")
			other := slices.Clone(pcm)
			slices.Reverse(other)
			a, b := openSession(t, e, delay(6)), openSession(t, e, delay(12))
			wantA, wantB := run(t, a, pcm), run(t, b, other)
			require.NotEqual(t, tokens(wantA), tokens(wantB))

			a.Reset()
			b.Reset()
			for at := 0; at < len(pcm); at += 3000 {
				require.NoError(t, a.Feed(pcm[at:min(at+3000, len(pcm))]))
				require.NoError(t, b.Feed(other[at:min(at+3000, len(pcm))]))
			}
			require.NoError(t, a.Finish())
			require.NoError(t, b.Finish())
			require.Equal(t, wantA, slices.Collect(a.Events()))
			require.Equal(t, wantB, slices.Collect(b.Events()))

			a.Reset()
			b.Reset()
			done := make(chan error, 2)
			for _, job := range []struct {
				s   *Session
				pcm []float32
			}{{a, pcm}, {b, other}} {
				go func() {
					err := job.s.Feed(job.pcm)
					if err == nil {
						err = job.s.Finish()
					}
					done <- err
				}()
			}
			require.NoError(t, <-done)
			require.NoError(t, <-done)
			require.Equal(t, wantA, slices.Collect(a.Events()))
			require.Equal(t, wantB, slices.Collect(b.Events()))
		})
	}
}

// The number of outputs and their times follow from the length of the audio alone: nothing is decoded past its end.
func TestTimeline(t *testing.T) {
	e := openEngine(t, openModel(t, fixture(t, "tiny-b", "mistral")), devices(t)["cpu"])
	s := openSession(t, e, delay(6))
	for _, n := range []int{1, 1279, 1280, 1281, 25600} {
		s.Reset()
		events := run(t, s, make([]float32, n))
		ticks := (n+1279)/1280 + 17
		require.Len(t, events, ticks-6, "%d samples", n)
		for k, ev := range events {
			require.Equal(t, k, ev.Index)
			require.Equal(t, time.Duration(k+1)*80*time.Millisecond, ev.Time)
		}
	}
	// The first output needs seven ticks and the 40 samples that the last mel frame looks ahead.
	s.Reset()
	require.NoError(t, s.Feed(make([]float32, 9000-1)))
	require.Empty(t, slices.Collect(s.Events()))
	require.NoError(t, s.Feed(make([]float32, 1)))
	require.Len(t, slices.Collect(s.Events()), 1)
}

// Audio of no samples has no events; a session is reusable after it.
func TestEmptyAudio(t *testing.T) {
	s := openSession(t, openEngine(t, openModel(t, fixture(t, "tiny-b", "mistral")), devices(t)["cpu"]), delay(6))
	require.Empty(t, run(t, s, nil))
	s.Reset()
	require.NotEmpty(t, run(t, s, make([]float32, 1280)))
}

// EOS ends a file, and what follows is ignored; live audio goes on after it.
func TestEOS(t *testing.T) {
	m := openModel(t, fixture(t, "tiny-a", "mistral"))
	pcm := load(t, "audio.safetensors").PCM("pcm")
	dev := devices(t)["cpu"]
	all := run(t, openSession(t, openEngine(t, m, dev), delay(6)), pcm)
	// Declare one of the tokens that come up to be the end of the stream.
	at := len(all) / 2
	tok := *m.Tokenizer
	tok.EOS = all[at].Token
	first := slices.IndexFunc(all, func(ev Event) bool { return ev.Token == tok.EOS })
	m.Tokenizer = &tok
	e := openEngine(t, m, dev)

	opt := delay(6)
	opt.IgnoreEOS = false
	s := openSession(t, e, opt)
	require.Equal(t, tokens(all[:first+1]), tokens(run(t, s, pcm)))
	require.True(t, s.Ended())
	s.Reset()
	require.False(t, s.Ended())

	require.Equal(t, tokens(all), tokens(run(t, openSession(t, e, delay(6)), pcm)))
}

// Misuse and damage are errors, never text.
func TestSessionRefuses(t *testing.T) {
	m := openModel(t, fixture(t, "tiny-b", "mistral"))
	e := openEngine(t, m, devices(t)["cpu"])
	for _, d := range []time.Duration{-80, 100, 40, 1280, 1600, 2320, 2480} {
		_, err := e.NewSession(Options{Delay: d * time.Millisecond})
		require.ErrorContains(t, err, "want a multiple of 80 ms from 80 ms to 1.2 s, or 2.4 s", d)
	}
	s := openSession(t, e, delay(1))
	require.ErrorContains(t, s.Feed([]float32{0, float32(math.NaN())}), "sample 1 is NaN")
	require.NoError(t, s.Finish())
	require.ErrorIs(t, s.Feed([]float32{0}), ErrFinished)
	require.ErrorIs(t, s.Finish(), ErrFinished)

	m.Config.Decoder.MaxPositions = 60
	long := openSession(t, openEngine(t, m, devices(t)["cpu"]), delay(1))
	err := long.Feed(make([]float32, 40*1280))
	require.ErrorContains(t, err, "longer than the model's 60 positions")
	require.NotEmpty(t, slices.Collect(long.Events()), "what was heard before stays")
	require.Equal(t, err, long.Feed(nil), "the error stays")
	require.Equal(t, err, long.Finish())
}

// Words come out once, in order, with times that never go back, for any stream of tokens.
func TestWordsProperties(t *testing.T) {
	const marker, pad = 33, 32
	rapid.Check(t, func(t *rapid.T) {
		w := &Words{marker: marker, pad: pad}
		var all strings.Builder
		var got []Word
		for k := range rapid.IntRange(0, 60).Draw(t, "events") {
			ev := Event{Index: k, Token: pad, Time: time.Duration(k+1) * 80 * time.Millisecond}
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				ev.Token = marker
			case 1, 2:
				ev.Token, ev.Text = 2000, rapid.SampledFrom([]string{" a", "b", " Wörter", "s", ".", " two words", " ", "ō"}).Draw(t, "text")
			}
			all.WriteString(ev.Text)
			got = append(got, w.Add(ev)...)
		}
		got = append(got, w.Flush()...)
		var texts []string
		last := time.Duration(0)
		for _, word := range got {
			texts = append(texts, word.Text)
			require.LessOrEqual(t, last, word.Start)
			require.LessOrEqual(t, word.Start, word.End)
			last = word.Start
		}
		require.Equal(t, strings.Join(strings.Fields(all.String()), ""), strings.Join(texts, ""))
	})
}

// A marker times its words; without one the word's own token does.
func TestWordTimes(t *testing.T) {
	w := &Words{marker: 33, pad: 32}
	at := func(k int, token int, text string) Event {
		return Event{Index: k, Token: token, Text: text, Time: time.Duration(k+1) * 80 * time.Millisecond}
	}
	var got []Word
	for _, ev := range []Event{at(10, 33, ""), at(11, 2000, " Hel"), at(12, 2001, "lo"), at(13, 32, ""), at(20, 33, ""), at(21, 2002, " one two"), at(22, 32, ""), at(30, 2003, " bare")} {
		got = append(got, w.Add(ev)...)
	}
	got = append(got, w.Flush()...)
	var lines []string
	for _, word := range got {
		lines = append(lines, fmt.Sprintf("%s %v", word.Text, word.End.Milliseconds()))
	}
	require.Equal(t, []string{"Hello 880", "one 1410", "two 1680", "bare 2480"}, lines)
}
