package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table aligns columns that tabs divide.
type table struct{ rows strings.Builder }

func (t *table) row(format string, args ...any) { fmt.Fprintf(&t.rows, format+"\n", args...) }

func (t *table) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(w, t.rows.String()); err != nil {
		return err
	}
	return w.Flush()
}

// Headline is the report in a line.
func (r *Report) Headline() string {
	return fmt.Sprintf("Voxtral RTF %.3f (%s, %s, %s, %.1f s of audio)", r.RTF, r.Mode, r.Device, r.Format, r.AudioSeconds)
}

// WriteText prints the report for people.
func (r *Report) WriteText(out io.Writer) error {
	if _, err := fmt.Fprintln(out, r.Headline()); err != nil {
		return err
	}
	var w table
	w.row("model\t%s, weights %s", r.Model, gigabytes(r.WeightBytes))
	threads := ""
	if r.Threads > 0 {
		threads = fmt.Sprintf(", threads: %d", r.Threads)
	}
	w.row("device\t%s: %s%s; load average beforehand: %.2f", r.Device, r.Detail, threads, r.LoadAverage)
	if r.SDPA != "" {
		w.row("attention\t%s: %s", r.SDPA, strings.Join(r.Attention, "; "))
	}
	w.row("commit\t%s", r.Commit)
	if r.Clips > 1 {
		w.row("clips\t%d, each a stream of its own; first text and first token are medians over them", r.Clips)
	}
	runs := fmt.Sprintf("%d", len(r.Runs))
	if len(r.Runs) > 1 {
		runs += ": medians, with the least and the largest"
	}
	w.row("runs\t%s; each in a new session, after a warm-up on %.0f s of other audio, not counted", runs, r.WarmUpSeconds)
	if r.Profiled {
		w.row("\tprofiled: ops run one by one, slower than otherwise")
	}
	w.row("RTF\t%s", r.spread("%.3f", "RTF"))
	w.row("first text\t%s ms after the start of the audio, first token %s ms", r.spread("%.0f", "first text, ms"), r.spread("%.0f", "first token, ms"))
	if t := r.Tick; t != nil {
		w.row("tick\tp50 %.1f ms, p95 %.1f, p99 %.1f, max %.1f; over 80 ms: %d of %d", t.P50, t.P95, t.P99, t.Max, t.Over80, t.Count)
	}
	w.row("encoder step\t%s ms, %s ms a tick", r.spread("%.2f", "encoder step, ms"), r.spread("%.2f", "encoder tick, ms"))
	w.row("decoder step\t%s ms, %s ms a token", r.spread("%.2f", "decoder step, ms"), r.spread("%.2f", "decoder token, ms"))
	w.row("tokens\t%s a second", r.spread("%.1f", "tokens/s"))
	speculation := "speculation off"
	if r.Speculation {
		speculation = "outputs of a decoder step"
	}
	w.row("acceptance\t%s, %s", r.spread("%.2f", "acceptance"), speculation)
	w.row("weights\t%s read by a decoder step: %s GB/s", gigabytes(r.WeightBytesPerStep), r.spread("%.2f", "GB/s"))
	if r.Machine != nil {
		w.row("\t%s of the %s GB/s measured here (%s)", r.spread("%.2f", "bandwidth fraction"), r.spread("%.2f", "peak GB/s"), r.Machine.Read)
	}
	c := r.EncoderChunk
	w.row("encoder chunk\t%d ticks at once: %.1f ms, %.0f Gop/s", c.Ticks, c.MS, ratio(float64(c.Ops), c.MS*1e6))
	if r.Machine != nil && len(r.Machine.Peaks) > 0 { // a GPU has none
		w.row("\t%.3f of %s", c.Fraction, c.Peak)
		for i, p := range r.Machine.Peaks {
			label := ""
			if i == 0 {
				label = "peaks"
			}
			w.row("%s\t%s: %.0f Gop/s", label, p.Name, p.OpsPerSecond/1e9)
		}
	}
	w.row("CPU\t%s s a second of audio", r.spread("%.3f", "CPU s per audio s"))
	switch d := r.DeviceMemory; {
	case d != nil:
		w.row("memory\t%s on the device: weights %s, keys and values %s, scratch %s", gigabytes(d.Weights+d.Cache+d.Scratch), gigabytes(d.Weights), gigabytes(d.Cache), gigabytes(d.Scratch))
		w.row("\t%s of the host at most, of it %s pinned", gigabytes(r.PeakRSSBytes), gigabytes(d.Pinned))
	case r.PeakRSSBytes > 0:
		w.row("memory\t%s at most, %s beside the weights", gigabytes(r.PeakRSSBytes), gigabytes(r.OverWeights))
	}
	l := r.Load
	w.row("load\t%.2f s: file %.0f ms, weights %.0f ms, session %.0f ms; %s resident", (l.ModelMS+l.EngineMS+l.SessionMS)/1e3, l.ModelMS, l.EngineMS, l.SessionMS, gigabytes(l.ResidentBytes))
	if err := w.write(out); err != nil || r.Ops == nil {
		return err
	}
	w = table{}
	w.row("\nop\tms\tshare")
	for _, op := range r.Ops {
		w.row("%s\t%.1f\t%.1f %%", op.Op, op.MS, 100*op.Share)
	}
	return w.write(out)
}

// spread is the median of a metric, and its least and largest value if there are several.
func (r *Report) spread(format, name string) string {
	for _, m := range metrics {
		values := m.values(r.Runs)
		if m.name != name || len(values) == 0 {
			continue
		}
		text := fmt.Sprintf(format, Median(values))
		if len(values) > 1 {
			lo, hi := values[0], values[0]
			for _, v := range values {
				lo, hi = min(lo, v), max(hi, v)
			}
			text += fmt.Sprintf(" ("+format+"–"+format+")", lo, hi)
		}
		return text
	}
	return "–"
}

func gigabytes(n int64) string {
	if n < 1e9 && n > -1e9 {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.3f GB", float64(n)/1e9)
}
