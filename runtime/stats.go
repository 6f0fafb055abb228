package runtime

import (
	"regexp"
	"time"
)

// Stats says where a session's time went, since it was made. Reset does not clear it.
type Stats struct {
	EncoderTime  time.Duration
	EncoderSteps int // steps of any length
	EncoderTicks int
	DecoderTime  time.Duration // prompt and steps
	DecoderSteps int           // steps after the prompt
	DecoderRows  int           // positions run in those steps, guesses included
	PromptTime   time.Duration // part of DecoderTime
	Prompts      int
	Outputs      int // tokens

	Ops map[string]time.Duration // by op without its layer, such as "dec.ffn.out"; only with Options.Profile
}

// Acceptance is how many outputs a decoder step gave on average: 1 without speculation.
func (s Stats) Acceptance() float64 {
	return float64(s.Outputs-s.Prompts) / float64(max(s.DecoderSteps, 1))
}

// Stats returns what has been counted so far.
func (s *Session) Stats() Stats {
	st := s.stats
	if s.opt.Profile {
		st.Ops = map[string]time.Duration{}
		for i := range s.encode {
			s.encode[i].addTimes(st.Ops)
		}
		for i := range s.runs {
			s.runs[i].addTimes(st.Ops)
		}
		s.prefill.addTimes(st.Ops)
	}
	return st
}

// layerNumber is the layer in an op's label: "enc.12.attn.qkv".
var layerNumber = regexp.MustCompile(`\.[0-9]+\.`)

func (p *program) addTimes(to map[string]time.Duration) {
	for i, d := range p.profile {
		to[layerNumber.ReplaceAllString(p.prog.Ops[i].Label(), ".")] += d
	}
}

func (s *Stats) encoderRun(ticks int, d time.Duration) {
	s.EncoderTime += d
	s.EncoderSteps++
	s.EncoderTicks += ticks
}

func (s *Stats) decoderRun(rows int, d time.Duration, prompt bool) {
	s.DecoderTime += d
	if prompt {
		s.PromptTime += d
		s.Prompts++
		return
	}
	s.DecoderSteps++
	s.DecoderRows += rows
}
