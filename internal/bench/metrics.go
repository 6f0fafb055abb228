package bench

// metric is one number of a run that can be summed up and compared.
type metric struct {
	name  string
	more  bool // is better
	field func(*Measures) *float64
	// optional fields and those of ticks may be missing
	maybe func(*Measures) **float64
	tick  func(*Ticks) *float64
}

var metrics = []metric{
	{name: "RTF", field: func(m *Measures) *float64 { return &m.RTF }},
	{name: "first text, ms", maybe: func(m *Measures) **float64 { return &m.TimeToFirstText }},
	{name: "first token, ms", maybe: func(m *Measures) **float64 { return &m.TimeToFirstToken }},
	{name: "tick p50, ms", tick: func(t *Ticks) *float64 { return &t.P50 }},
	{name: "tick p95, ms", tick: func(t *Ticks) *float64 { return &t.P95 }},
	{name: "tick p99, ms", tick: func(t *Ticks) *float64 { return &t.P99 }},
	{name: "tick max, ms", tick: func(t *Ticks) *float64 { return &t.Max }},
	{name: "encoder step, ms", field: func(m *Measures) *float64 { return &m.EncoderStepMS }},
	{name: "encoder tick, ms", field: func(m *Measures) *float64 { return &m.EncoderTickMS }},
	{name: "decoder step, ms", field: func(m *Measures) *float64 { return &m.DecoderStepMS }},
	{name: "decoder token, ms", field: func(m *Measures) *float64 { return &m.DecoderTokenMS }},
	{name: "tokens/s", more: true, field: func(m *Measures) *float64 { return &m.TokensPerSecond }},
	{name: "GB/s", more: true, field: func(m *Measures) *float64 { return &m.GBps }},
	{name: "peak GB/s", more: true, field: func(m *Measures) *float64 { return &m.PeakGBps }},
	{name: "bandwidth fraction", more: true, field: func(m *Measures) *float64 { return &m.BandwidthFraction }},
	{name: "CPU s per audio s", field: func(m *Measures) *float64 { return &m.CPUPerAudioSeconds }},
	{name: "acceptance", more: true, field: func(m *Measures) *float64 { return &m.Acceptance }},
}

// at is where a run keeps the number, nil if it has none.
func (m metric) at(r *Measures) *float64 {
	switch {
	case m.field != nil:
		return m.field(r)
	case m.maybe != nil:
		return *m.maybe(r)
	case r.Tick != nil:
		return m.tick(r.Tick)
	}
	return nil
}

// values are those of the runs that have the number.
func (m metric) values(runs []Measures) []float64 {
	var list []float64
	for i := range runs {
		if v := m.at(&runs[i]); v != nil {
			list = append(list, *v)
		}
	}
	return list
}

// set puts a median in its place; ticks have theirs from all runs together.
func (m metric) set(r *Measures, v float64) {
	switch {
	case m.field != nil:
		*m.field(r) = v
	case m.maybe != nil:
		*m.maybe(r) = &v
	}
}
