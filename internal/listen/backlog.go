package listen

import (
	"context"
	"slices"
	"sync"
	"time"

	"voxtral/audio"
)

const frameSamples = audio.SampleRate / 50 // 20 ms, the unit in which audio is judged and dropped

// frame is up to 20 ms of audio.
type frame struct {
	pcm     []float32
	start   int64     // its first sample in the source
	arrived time.Time // its last sample
}

// backlog is audio that has come and has not been heard.
type backlog struct {
	mu      sync.Mutex
	frames  []frame
	samples int // in frames
	next    int64
	drops   []Drop // not yet told
	ended   bool

	limit int  // samples
	lossy bool // drops above the limit instead of waiting
	ready chan struct{}
	room  chan struct{}
}

func newBacklog(maxLag time.Duration) *backlog {
	b := &backlog{limit: longestFeed, ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	if maxLag > 0 {
		b.limit, b.lossy = int(maxLag*audio.SampleRate/time.Second), true
	}
	return b
}

// push adds audio. Unless the backlog is lossy it waits until there is room, or ctx is cancelled.
func (b *backlog) push(ctx context.Context, pcm []float32, now time.Time) {
	b.mu.Lock()
	for !b.lossy && b.samples >= b.limit && ctx.Err() == nil {
		b.mu.Unlock()
		select {
		case <-b.room:
		case <-ctx.Done():
		}
		b.mu.Lock()
	}
	b.add(pcm, now)
	if b.lossy && b.samples > b.limit {
		b.shrink()
	}
	b.mu.Unlock()
	signal(b.ready)
}

func (b *backlog) add(pcm []float32, now time.Time) {
	for len(pcm) > 0 {
		n := len(b.frames)
		if n == 0 || len(b.frames[n-1].pcm) == frameSamples {
			b.frames = append(b.frames, frame{pcm: make([]float32, 0, frameSamples), start: b.next})
			n++
		}
		f := &b.frames[n-1]
		k := min(len(pcm), frameSamples-len(f.pcm))
		f.pcm = append(f.pcm, pcm[:k]...)
		f.arrived = now
		pcm = pcm[k:]
		b.next += int64(k)
		b.samples += k
	}
}

// end says that nothing more comes.
func (b *backlog) end() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	signal(b.ready)
}

// batch is what the session hears at once: audio without a gap inside.
type batch struct {
	pcm      []float32
	start    int64
	arrivals []arrival // of its pieces in turn
	drops    []Drop    // since the batch before
}

type arrival struct {
	samples int
	at      time.Time
}

// take waits for audio, but not longer than the patience, and takes the oldest. more is false when nothing is left and
// nothing will come.
func (b *backlog) take(patience time.Duration) (taken batch, more bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for waiting := true; ; {
		b.mu.Lock()
		if len(b.frames) > 0 || b.ended || !waiting {
			break
		}
		b.mu.Unlock()
		select {
		case <-b.ready:
		case <-timer.C:
			waiting = false
		}
	}
	defer b.mu.Unlock()
	taken.drops, b.drops = b.drops, nil
	n := 0
	for n < len(b.frames) && len(taken.pcm) < longestFeed {
		f := &b.frames[n]
		if n > 0 && f.start != taken.start+int64(len(taken.pcm)) {
			break
		}
		if n == 0 {
			taken.start = f.start
		}
		taken.pcm = append(taken.pcm, f.pcm...)
		taken.arrivals = append(taken.arrivals, arrival{len(f.pcm), f.arrived})
		n++
	}
	b.frames = slices.Delete(b.frames, 0, n)
	b.samples -= len(taken.pcm)
	signal(b.room)
	return taken, !b.ended || len(b.frames) > 0
}

// lag is the age of the oldest audio.
func (b *backlog) lag(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.frames) == 0 {
		return 0
	}
	return now.Sub(b.frames[0].arrived)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
