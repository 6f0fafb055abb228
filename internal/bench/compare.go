package bench

import (
	"fmt"
	"io"
	"strings"
)

// Comparison is one metric of two reports.
type Comparison struct {
	Metric   string
	A, B     float64 // means over the runs
	Ratio    float64 // B / A
	Interval Interval
	Known    bool   // whether there are runs enough for an interval
	Verdict  string // what B is to A, with the interval's confidence
}

// Compare compares what two reports both have.
func Compare(a, b *Report) []Comparison {
	var list []Comparison
	for _, m := range metrics {
		x, y := m.values(a.Runs), m.values(b.Runs)
		if len(x) == 0 || len(y) == 0 || mean(x) == 0 || mean(y) == 0 {
			continue
		}
		c := Comparison{Metric: m.name, A: mean(x), B: mean(y)}
		c.Ratio = c.B / c.A
		c.Interval, c.Known = RatioInterval(x, y)
		switch {
		case !c.Known:
			c.Verdict = "one run: unknown"
		case c.Interval.Lo <= 1 && c.Interval.Hi >= 1:
			c.Verdict = "no difference shown"
		case (c.Ratio > 1) == m.more:
			c.Verdict = "better"
		default:
			c.Verdict = "worse"
		}
		list = append(list, c)
	}
	return list
}

// WriteComparison prints what two reports, known by their names, say of each other.
func WriteComparison(out io.Writer, nameA string, a *Report, nameB string, b *Report) error {
	var w table
	for _, r := range []struct {
		name   string
		report *Report
	}{{"A  " + nameA, a}, {"B  " + nameB, b}} {
		w.row("%s\t%s, commit %s, runs: %d, load average: %.2f", r.name, r.report.Headline(), r.report.Commit, len(r.report.Runs), r.report.LoadAverage)
	}
	for _, d := range differences(a, b) {
		w.row("differs\t%s", d)
	}
	if err := w.write(out); err != nil {
		return err
	}
	w = table{}
	w.row("\nmean\tA\tB\tB/A\t95 %%\tB is")
	for _, c := range Compare(a, b) {
		interval := ""
		if c.Known {
			interval = fmt.Sprintf("%.3f–%.3f", c.Interval.Lo, c.Interval.Hi)
		}
		w.row("%s\t%.4g\t%.4g\t%.3f\t%s\t%s", c.Metric, c.A, c.B, c.Ratio, interval, c.Verdict)
	}
	return w.write(out)
}

// chosen is a report's attention in a line; reports of earlier releases have none.
func chosen(r *Report) string {
	if r.SDPA == "" {
		return "standard"
	}
	return strings.Join(r.Attention, "; ")
}

// differences are the conditions, other than the program, that the two reports do not share.
func differences(a, b *Report) []string {
	var list []string
	for _, d := range []struct {
		what string
		a, b any
	}{
		{"mode", a.Mode, b.Mode}, {"model", a.Model, b.Model}, {"format", a.Format, b.Format},
		{"device", a.Device + " " + a.Detail, b.Device + " " + b.Detail}, {"threads", a.Threads, b.Threads},
		{"seconds of audio", a.AudioSeconds, b.AudioSeconds}, {"clips", a.Clips, b.Clips}, {"delay, ms", a.DelayMS, b.DelayMS},
		{"speculation", a.Speculation, b.Speculation}, {"attention", chosen(a), chosen(b)}, {"profiled", a.Profiled, b.Profiled},
	} {
		if d.a != d.b {
			list = append(list, fmt.Sprintf("%s: %v and %v", d.what, d.a, d.b))
		}
	}
	return list
}
