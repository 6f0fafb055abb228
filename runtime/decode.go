package runtime

import (
	"fmt"
	"math"
	"strings"
	"time"

	"voxtral/decoder"
	"voxtral/internal/device"
)

// runDecoder catches up with the encoder: the prompt as soon as all of its audio is there, then position by position, or
// several where the audio is there and the tokens can be guessed. If more audio is at hand it leaves off where a run would be
// cut short by the want of it.
func (s *Session) runDecoder(more bool) error {
	for !s.ended {
		d, rows, length := &s.prefill, s.schedule.PromptLen(), -1
		if s.decoded > 0 {
			ready := s.encoded - s.decoded
			if more && !s.opt.NoSpeculation && ready < longestRun {
				return nil
			}
			length = s.draft(ready)
			d, rows = &s.runs[length], runRows[length]
		}
		if s.decoded+rows > s.encoded {
			return nil
		}
		if limit := s.engine.model.Config.Decoder.MaxPositions; s.decoded+rows > limit {
			return fmt.Errorf("runtime: the audio is longer than the model's %d positions (%v): split it", limit, time.Duration(limit)*decoder.TickDuration)
		}
		began, first := time.Now(), s.decoded
		if err := d.run(s, d.clock.At(s.decoded), s.decoded); err != nil {
			return fmt.Errorf("runtime: position %d: %w", s.decoded, err)
		}
		if err := s.accept(d, rows); err != nil {
			return err
		}
		took := time.Since(began)
		s.stats.decoderRun(rows, took, length < 0)
		if length >= 0 {
			s.engine.pace.Ran(length, s.decoded-first, took)
		}
	}
	return nil
}

// draft sets up the step after the prompt, for at most ready positions: the latest token, then guesses. It returns which of
// runs that is.
func (s *Session) draft(ready int) int {
	limit := s.engine.model.Config.Decoder.MaxPositions - s.decoded
	ahead := max(min(ready, limit, longestRun)-1, 0)
	var guesses [longestRun - 1]int32
	length := 0
	if !s.opt.NoSpeculation && ahead > 0 {
		var chance [longestRun - 1]float64
		s.drafter.Draft(guesses[:ahead], chance[:ahead])
		length = s.engine.pace.Best(chance[:ahead])
	}
	tokens := s.runs[length].clock.Tokens()
	tokens[0] = s.token
	copy(tokens[1:], guesses[:])
	return length
}

// accept reads a step's outputs and keeps those whose inputs were right: the first, and each one after it as long as the
// guess before it came true. What the others left in the rings is overwritten when their positions come round again.
func (s *Session) accept(d *decodeStep, rows int) error {
	prompt, heads := s.decoded == 0, rows
	if prompt {
		s.decoded, heads = rows-1, 1
	}
	ids, top := make([]int32, heads), make([]float32, 2*heads)
	if err := s.engine.dev.Read(s.out.IDs, 0, device.I32Bytes(ids)); err != nil {
		return fmt.Errorf("runtime: position %d: %w", s.decoded, err)
	}
	if err := s.engine.dev.Read(s.out.Top, 0, device.F32Bytes(top)); err != nil {
		return fmt.Errorf("runtime: position %d: %w", s.decoded, err)
	}
	for i, id := range ids {
		if i > 0 && d.clock.Tokens()[i] != ids[i-1] {
			hints := make([]decoder.Hint, 0, len(ids)-i)
			for j := i; j < len(ids); j++ {
				hints = append(hints, decoder.Hint{Before: d.clock.Tokens()[j-1], In: d.clock.Tokens()[j], Out: ids[j]})
			}
			s.drafter.Hints(hints)
			return nil
		}
		if id < 0 || math.IsInf(float64(top[2*i]), 0) {
			return fmt.Errorf("runtime: position %d: the logits are not finite: the weights or the device are damaged", s.decoded)
		}
		s.decoded++
		s.emit(id, top[2*i]-top[2*i+1])
		if s.ended {
			return nil
		}
	}
	return nil
}

// emit turns an output into an event.
func (s *Session) emit(id int32, margin float32) {
	s.token = id
	s.drafter.Observe(id)
	text := s.text.Write(int(id))
	if !s.started {
		text = strings.TrimLeft(text, " \n\t")
		s.started = text != ""
	}
	s.events = append(s.events, Event{
		Index: s.outputs, Token: int(id), Text: text, Time: s.schedule.TextTime(s.outputs), Margin: margin,
	})
	s.outputs++
	s.stats.Outputs++
	s.ended = int(id) == s.engine.model.Tokenizer.EOS && !s.opt.IgnoreEOS
}
