package capture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/gen2brain/malgo"

	"voxtral/audio"
)

const (
	ringTime   = 2 * time.Second       // what the ring holds while the reader is kept from running
	pollPeriod = 10 * time.Millisecond // how often the reader looks into the ring: the callback wakes nobody
	period     = 20                    // ms between callbacks, as a wish
	deadAfter  = 300                   // empty looks, 3 s: some sound systems just stop calling, but even silence is samples
)

// Input is a microphone, or another source of the system's audio.
type Input struct {
	Name    string
	Default bool
}

// Inputs lists what can be listened to.
func Inputs() ([]Input, error) {
	s, err := openSystem(realBackends)
	if err != nil {
		return nil, err
	}
	defer s.close()
	devices, err := s.inputs()
	if err != nil {
		return nil, err
	}
	var inputs []Input
	for _, d := range devices {
		inputs = append(inputs, Input{d.Name(), d.IsDefault != 0})
	}
	return inputs, nil
}

// Microphone listens to an input by its name or a part of it that no other input has; an empty name is the system's
// default. channel is that of audio.Options.
func Microphone(name string, channel int) Open {
	return func(ctx context.Context) (Source, error) {
		m, err := openMicrophone(ctx, realBackends, name, channel, nil)
		if err != nil {
			return nil, fmt.Errorf("microphone: %w", err)
		}
		return m, nil
	}
}

// NullMicrophone is for tests: a microphone that is not there, paced by the clock like one that is. fill puts samples
// into each of its interleaved blocks, on the thread of the callback.
func NullMicrophone(fill func(block []float32, channels int)) Open {
	return func(ctx context.Context) (Source, error) {
		m, err := openMicrophone(ctx, []malgo.Backend{nullBackend}, "", 0, fill)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
}

// microphone is a running capture device.
type microphone struct {
	ctx      context.Context
	system   *system
	device   *malgo.Device
	name     string
	rate     int
	channels int
	channel  int // the one to listen to, from 1; 0 takes the mean
	ring     *ring
	ready    atomic.Bool   // what the callback needs is there
	stopped  chan struct{} // closed when the device has stopped

	rs      *audio.Resampler
	block   []float32 // interleaved, of the device
	pending []float32 // at 16 kHz, not yet returned
	next    int       // into pending
	empty   int       // looks in a row that found nothing; not a time, which passes while this process does not run
	err     error     // what Read returns once pending is empty
}

func openMicrophone(ctx context.Context, backends []malgo.Backend, name string, channel int, fill func([]float32, int)) (*microphone, error) {
	system, err := openSystem(backends)
	if err != nil {
		return nil, err
	}
	m := &microphone{ctx: ctx, system: system, channel: channel, stopped: make(chan struct{})}
	if err := m.open(name, fill); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *microphone) open(name string, fill func([]float32, int)) error {
	config := malgo.DefaultDeviceConfig(malgo.Capture)
	config.Capture.Format = malgo.FormatF32
	config.Capture.Channels, config.SampleRate = 0, 0 // the device's own
	config.PeriodSizeInMilliseconds = period
	devices, err := m.system.inputs()
	if err != nil {
		return err
	}
	chosen, err := choose(devices, name)
	if err != nil {
		return err
	}
	m.name = chosen.Name()
	// An input that is named is never exchanged for another one, as the default is when it is pulled out. The copy of its
	// name that C gets is small and stays.
	config.Capture.DeviceID = chosen.ID.Pointer()
	stop := sync.OnceFunc(func() { close(m.stopped) })
	device, err := malgo.InitDevice(m.system.context.Context, config, malgo.DeviceCallbacks{
		Data: func(_, in []byte, _ uint32) {
			if len(in) == 0 || !m.ready.Load() {
				return
			}
			samples := unsafe.Slice((*float32)(unsafe.Pointer(&in[0])), len(in)/4)
			if fill != nil {
				fill(samples, m.channels)
			}
			m.ring.write(samples, m.channels)
		},
		Stop: stop,
	})
	if err != nil {
		return fmt.Errorf("%s cannot be opened: %w", m.name, err)
	}
	m.device = device
	m.rate, m.channels = int(device.SampleRate()), int(device.CaptureChannels())
	if m.channel > m.channels {
		return fmt.Errorf("channel %d asked for, but %s has %d", m.channel, m.name, m.channels)
	}
	if m.rs, err = audio.NewResampler(m.rate, audio.SampleRate); err != nil {
		return err
	}
	m.ring = newRing(int(ringTime.Seconds() * float64(m.rate*m.channels)))
	m.block = make([]float32, 1024*m.channels)
	m.ready.Store(true)
	if err := device.Start(); err != nil {
		return fmt.Errorf("%s cannot be started: %w", m.name, err)
	}
	return nil
}

// choose finds the input of a name: the same but for case, or the only one with it as a part.
func choose(devices []malgo.DeviceInfo, name string) (malgo.DeviceInfo, error) {
	if len(devices) == 0 {
		return malgo.DeviceInfo{}, errors.New("there is none: no input is connected, or this user may not use it")
	}
	var found []malgo.DeviceInfo
	var names []string
	for _, d := range devices {
		names = append(names, d.Name())
		switch {
		case strings.EqualFold(d.Name(), name), name == "" && d.IsDefault != 0:
			return d, nil
		case strings.Contains(strings.ToLower(d.Name()), strings.ToLower(name)):
			found = append(found, d)
		}
	}
	switch {
	case name == "" || len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return malgo.DeviceInfo{}, fmt.Errorf("%q is the name of %d inputs: there are %s", name, len(found), strings.Join(names, "; "))
	}
	return malgo.DeviceInfo{}, fmt.Errorf("no input is called %q: there are %s", name, strings.Join(names, "; "))
}

func (m *microphone) Detail() string {
	return fmt.Sprintf("%s, %d Hz, channels: %d", m.name, m.rate, m.channels)
}

// Read waits for samples. When the context is cancelled the device stops, and what it has captured until then still comes.
func (m *microphone) Read(dst []float32) (int, error) {
	for m.next == len(m.pending) {
		if m.err != nil {
			return 0, m.err
		}
		m.pending, m.next = m.pending[:0], 0
		if !m.advance() {
			m.wait()
		}
	}
	n := copy(dst, m.pending[m.next:])
	m.next += n
	return n, nil
}

// advance brings what the ring holds to the model's form and says whether that was anything.
func (m *microphone) advance() bool {
	n := m.ring.take(m.block)
	if n == 0 {
		return false
	}
	m.empty = 0
	frames := n / m.channels
	mono := m.block[:frames] // in place: a frame's mean is written no later than its samples are read
	for i := range frames {
		frame := m.block[i*m.channels : (i+1)*m.channels]
		if m.channel > 0 {
			mono[i] = frame[m.channel-1]
			continue
		}
		var sum float32
		for _, x := range frame {
			sum += x
		}
		mono[i] = sum / float32(m.channels)
	}
	m.pending = clamp(m.rs.Write(m.pending, mono))
	return true
}

const gone = "it was unplugged, or the sound system has ended"

// wait sleeps until there may be more, or ends the audio.
func (m *microphone) wait() {
	timer := time.NewTimer(pollPeriod)
	defer timer.Stop()
	select {
	case <-timer.C:
		if m.empty++; m.empty > deadAfter {
			m.finish(fmt.Errorf("%s delivers nothing any more: %s", m.name, gone))
		}
	case <-m.ctx.Done():
		m.finish(context.Cause(m.ctx))
	case <-m.stopped:
		m.finish(fmt.Errorf("%s has stopped: %s", m.name, gone))
	}
}

// finish stops the device and takes the rest.
func (m *microphone) finish(why error) {
	_ = m.device.Stop() // it may have stopped by itself
	for m.advance() {
	}
	m.pending = clamp(m.rs.Flush(m.pending))
	m.err = why
}

// clamp takes back what a filter has added to full scale.
func clamp(pcm []float32) []float32 {
	for i, x := range pcm {
		pcm[i] = max(-1, min(1, x))
	}
	return pcm
}

func (m *microphone) Warnings() []string {
	lost := m.ring.overflowed.Load()
	if lost == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%.2f s of audio were lost: this machine was too busy to take them", float64(lost)/float64(m.rate*m.channels))}
}

func (m *microphone) Close() error {
	if m.device != nil {
		m.device.Uninit()
		m.device = nil
	}
	if m.system != nil {
		m.system.close()
		m.system = nil
	}
	if m.err == nil {
		m.err = errors.New("the microphone is closed")
	}
	return nil
}
