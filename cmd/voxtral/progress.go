package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress is a bar on a terminal. A nil progress shows nothing.
type progress struct {
	w     io.Writer
	name  string
	bar   *progressbar.ProgressBar // nil until there is something to show
	shown time.Time
	total int64
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// begin starts the bar of one piece of work, whose length the first update tells.
func (p *progress) begin(name string) {
	if p == nil {
		return
	}
	p.name, p.total, p.bar = shortName(name), 0, nil
}

// shortName leaves room for the bar on a terminal of 80 columns.
func shortName(path string) string {
	const most = 20
	name := []rune(filepath.Base(path))
	if len(name) > most {
		name = append(name[:most-1], '…')
	}
	return string(name)
}

// update moves the bar and puts words after the name. total is -1 when it is not known.
func (p *progress) update(done, total int64, words string) {
	if p == nil {
		return
	}
	if p.bar == nil || total != p.total {
		p.clear()
		p.total = total
		p.bar = newBar(p.w, total)
	} else if time.Since(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = time.Now()
	p.bar.Describe(p.name + "  " + words)
	if total > 0 {
		done = min(done, total-1) // work goes on after the last sample has been read
	}
	_ = p.bar.Set64(done) // a bar that cannot be drawn is no reason to stop
}

func newBar(w io.Writer, total int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetWidth(20),
		progressbar.OptionSetPredictTime(total > 0),
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionSetSpinnerChangeInterval(0), // else a bar of unknown length draws itself by a clock of its own, over our lines
		progressbar.OptionClearOnFinish(),
	)
}

func (p *progress) clear() {
	if p != nil && p.bar != nil {
		_ = p.bar.Clear()
	}
}

func (p *progress) end() {
	p.clear()
	if p != nil {
		p.bar = nil
	}
}

// shortTime prints a time as people read it: 3.2s, 1m05s, 2h03m.
func shortTime(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}
