package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"voxtral/internal/device"
	"voxtral/models"
)

// Measures are the results of one run, or the medians of several.
type Measures struct {
	// RTF is seconds of work for a second of audio. Waiting for the audio, in paced mode, is no work.
	RTF                float64  `json:"rtf"`
	TimeToFirstText    *float64 `json:"time_to_first_text_ms"` // from the start of the audio; null if there was none
	TimeToFirstToken   *float64 `json:"time_to_first_token_ms"`
	Tick               *Ticks   `json:"tick_ms"`         // null in offline mode, which has no ticks
	EncoderStepMS      float64  `json:"encoder_step_ms"` // a step is as many ticks as there are at once
	EncoderTickMS      float64  `json:"encoder_tick_ms"`
	DecoderStepMS      float64  `json:"decoder_step_ms"` // without the prompt
	DecoderTokenMS     float64  `json:"decoder_token_ms"`
	TokensPerSecond    float64  `json:"tokens_per_second"` // of work
	GBps               float64  `json:"gbps"`              // weights read by decoder steps
	PeakGBps           float64  `json:"peak_gbps"`         // measured by the probe; 0 without one
	BandwidthFraction  float64  `json:"bandwidth_fraction"`
	CPUPerAudioSeconds float64  `json:"cpu_seconds_per_audio_second"`
	Acceptance         float64  `json:"acceptance"` // outputs of a decoder step

	ticks []float64 // ms
}

// Ticks is how late a tick's output is after its last sample, in milliseconds.
type Ticks struct {
	P50    float64 `json:"p50"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
	Over80 int     `json:"over_80"` // ticks that missed the next one's arrival
	Count  int     `json:"count"`
}

func newTicks(ms []float64) *Ticks {
	if len(ms) == 0 {
		return nil
	}
	s := slices.Sorted(slices.Values(ms))
	t := &Ticks{P50: Percentile(s, 0.50), P95: Percentile(s, 0.95), P99: Percentile(s, 0.99), Max: s[len(s)-1], Count: len(s)}
	for _, v := range s {
		if v > milliseconds(tickTime) {
			t.Over80++
		}
	}
	return t
}

// Chunk is the encoder's longest step, alone.
type Chunk struct {
	Ticks    int     `json:"ticks"`
	MS       float64 `json:"ms"`  // median
	Ops      int64   `json:"ops"` // see ChunkOps
	Peak     string  `json:"peak,omitempty"`
	Fraction float64 `json:"fraction"` // ops a second over that peak; 0 without a probe
}

// Machine is what the hardware can do at best.
type Machine struct {
	ReadBandwidth float64 `json:"-"` // bytes a second
	Read          string  `json:"read"`
	Int8          Peak    `json:"int8,omitzero"`
	BF16          Peak    `json:"bf16,omitzero"`
	Peaks         []Peak  `json:"peaks,omitempty"` // of all instructions; none are measured on a GPU
}

// DeviceMemory is what a device holds in memory of its own while a session is open, in bytes.
type DeviceMemory struct {
	Weights int64 `json:"weights_bytes"`
	Cache   int64 `json:"cache_bytes"` // keys, values and what else a stream keeps
	Scratch int64 `json:"scratch_bytes"`
	Pinned  int64 `json:"pinned_host_bytes"` // the host's memory, which the device reads and writes in place
}

// Peak is how fast an instruction for dot products is.
type Peak struct {
	Name         string  `json:"name"`
	OpsPerSecond float64 `json:"ops_per_second"`
}

// best keeps the larger rates.
func (m *Machine) best(other Machine) {
	if m.Read == "" {
		*m = other
		return
	}
	m.ReadBandwidth = max(m.ReadBandwidth, other.ReadBandwidth)
	better := func(a, b Peak) Peak {
		if b.OpsPerSecond > a.OpsPerSecond {
			return b
		}
		return a
	}
	m.Int8, m.BF16 = better(m.Int8, other.Int8), better(m.BF16, other.BF16)
	for i := range m.Peaks {
		m.Peaks[i] = better(m.Peaks[i], other.Peaks[i])
	}
}

// OpTime is how long all ops of one kind took, over all runs.
type OpTime struct {
	Op    string  `json:"op"`
	MS    float64 `json:"ms"`
	Share float64 `json:"share"`
}

// Report is the outcome of a measurement. The embedded measures are medians over the runs, but for ticks, which are those
// of all runs together.
type Report struct {
	Measures
	Mode               Mode    `json:"mode"`
	Device             string  `json:"device"`
	Format             string  `json:"format"`
	AudioSeconds       float64 `json:"audio_seconds"`
	WeightBytesPerStep int64   `json:"weight_bytes_per_step"`
	PeakRSSBytes       int64   `json:"peak_rss_bytes"` // until the end of the first run; 0 if the system does not tell
	Commit             string  `json:"commit"`

	Clips         int      `json:"clips"` // first text and first token are medians over them
	Model         string   `json:"model"`
	Detail        string   `json:"device_detail"`
	Threads       int      `json:"threads"`
	LoadAverage   float64  `json:"load_average"` // of the system, beforehand: other work makes all numbers worthless
	DelayMS       int64    `json:"delay_ms"`
	Speculation   bool     `json:"speculation"`
	Profiled      bool     `json:"profiled"` // which makes everything slower
	WarmUpSeconds float64  `json:"warm_up_seconds"`
	WeightBytes   int64    `json:"weight_bytes"`
	OverWeights   int64    `json:"rss_over_weights_bytes"` // peak less weights; 0 where the weights are on a GPU
	EncoderChunk  Chunk    `json:"encoder_chunk"`
	Machine       *Machine `json:"machine,omitempty"`

	DeviceMemory *DeviceMemory `json:"device_memory,omitempty"` // of a GPU; after the last run, before its probe
	SDPA         string        `json:"sdpa,omitempty"`          // the policy that was asked for
	Attention    []string      `json:"attention,omitempty"`     // the kernels that it chose

	Load Load       `json:"load"`
	Ops  []OpTime   `json:"ops,omitempty"`
	Runs []Measures `json:"runs"`
}

func (m *measurement) report() *Report {
	r := &Report{
		Measures: medians(m.runs), Mode: m.opt.Mode, Device: m.Device.Name, Format: formatOf(m.Model).String(),
		AudioSeconds: seconds(m.clips), Clips: len(m.clips), WeightBytesPerStep: StepBytes(m.Model), PeakRSSBytes: m.peakRSS, Commit: m.opt.Commit,
		Model: m.Model.Name, Detail: m.Device.Detail, Threads: m.Device.Threads, LoadAverage: m.Busy, DelayMS: m.Session.Delay().Milliseconds(),
		Speculation: !m.Subject.opt.NoSpeculation, Profiled: m.Subject.opt.Profile, WarmUpSeconds: warmUpTime.Seconds(),
		WeightBytes: WeightBytes(m.Model), EncoderChunk: m.chunk, Load: m.Load, Ops: opTimes(m.profiles), Runs: m.runs,
	}
	if m.memory != nil {
		r.DeviceMemory = m.memory
	} else if m.peakRSS > 0 {
		r.OverWeights = m.peakRSS - r.WeightBytes
	}
	if m.opt.Hardware != nil {
		r.SDPA, r.Attention = m.opt.Hardware.Attention()
		r.Machine = &m.machine
		peak := m.machine.BF16
		if formatOf(m.Model).Grouped() {
			peak = m.machine.Int8
		}
		r.EncoderChunk.Peak = peak.Name
		r.EncoderChunk.Fraction = ratio(ratio(float64(m.chunk.Ops), m.chunk.MS/1e3), peak.OpsPerSecond)
	}
	return r
}

// formatOf is the format of most matrices.
func formatOf(m *models.Model) device.Format {
	for _, t := range m.Tensors() {
		if t.Name == models.DecoderLayer(0, models.W1) {
			return t.Format
		}
	}
	return device.F32
}

func medians(runs []Measures) Measures {
	var all Measures
	for _, metric := range metrics {
		values := metric.values(runs)
		if len(values) > 0 {
			metric.set(&all, Median(values))
		}
	}
	for _, r := range runs {
		all.ticks = append(all.ticks, r.ticks...)
	}
	all.Tick = newTicks(all.ticks)
	return all
}

func opTimes(profiles []map[string]time.Duration) []OpTime {
	total, sums := 0.0, map[string]float64{}
	for _, p := range profiles {
		for op, t := range p {
			sums[op] += milliseconds(t)
			total += milliseconds(t)
		}
	}
	var list []OpTime
	for op, ms := range sums {
		list = append(list, OpTime{op, ms, ratio(ms, total)})
	}
	slices.SortFunc(list, func(a, b OpTime) int { return cmp.Or(cmp.Compare(b.MS, a.MS), cmp.Compare(a.Op, b.Op)) })
	return list
}

// ReadReport reads a report that was written as JSON.
func ReadReport(path string) (*Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	r := &Report{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("bench: %s is no report of voxtral bench --json: %w", path, err)
	}
	if len(r.Runs) == 0 || r.RTF <= 0 {
		return nil, fmt.Errorf("bench: %s is no report of voxtral bench --json: it has no runs", path)
	}
	return r, nil
}
