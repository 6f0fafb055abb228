package runtime

import "time"

// Event is one output of the decoder: a token, the text that it completes, and how much of the audio it has heard.
type Event struct {
	Index  int           // output index, from 0; one output per 80 ms
	Token  int           // token id, special tokens included
	Text   string        // whole UTF-8 that this token completes, often empty; concatenated, the transcript
	Time   time.Duration // audio time from the first sample up to which the token speaks, the delay taken off
	Margin float32       // largest logit minus the next one: near 0 is a near tie
}
