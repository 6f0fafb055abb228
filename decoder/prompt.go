package decoder

import (
	"fmt"
	"time"

	"voxtral/models"
)

// TickDuration is the time of one position.
const TickDuration = 80 * time.Millisecond

// flushTokens are padded after the delay at the end of the audio: one for BOS and ten for the longest word (8).
const flushTokens = 1 + 10

// Delays the model was trained on: every tick from one to fifteen, and thirty.
const (
	minDelay  = 1
	maxDelay  = 15
	longDelay = 30
)

// DelayTokens converts a transcription delay to ticks (8.1).
func DelayTokens(d time.Duration) (int, error) {
	n := int(d / TickDuration)
	if d%TickDuration != 0 || (n < minDelay || n > maxDelay) && n != longDelay {
		return 0, fmt.Errorf("delay %v: want a multiple of 80 ms from 80 ms to 1.2 s, or 2.4 s", d)
	}
	return n, nil
}

// Schedule is the timeline of one stream in ticks: silence before the audio, the prompt, silence after it (8).
type Schedule struct {
	Left  int // ticks of silence before the audio
	Delay int // ticks by which text trails the audio
	bos   int32
	pad   int32
}

// NewSchedule gives the timeline for a delay in ticks.
func NewSchedule(m *models.Model, delay int) Schedule {
	return Schedule{Left: m.Config.LeftPad, Delay: delay, bos: int32(m.Tokenizer.BOS), pad: int32(m.Tokenizer.StreamingPad)}
}

// PromptLen is the number of prompt positions: BOS, then a pad for every tick of silence and of delay.
func (s Schedule) PromptLen() int { return 1 + s.Left + s.Delay }

// Prompt writes the prompt's token ids to dst [PromptLen].
func (s Schedule) Prompt(dst []int32) {
	for i := range dst {
		dst[i] = s.pad
	}
	dst[0] = s.bos
}

// RightPad is the number of ticks of silence after the audio, which has been padded to a whole tick.
func (s Schedule) RightPad() int { return s.Delay + flushTokens }

// TextTime is the audio time, from the start of the real audio, up to which output index k has been heard: silence and
// delay are taken off (11.1).
func (s Schedule) TextTime(k int) time.Duration { return time.Duration(k+1) * TickDuration }
