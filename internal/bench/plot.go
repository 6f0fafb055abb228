package bench

import (
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Plot draws, as a PNG, how late each tick's output was, over the time of the audio, with the deadline of 80 ms.
func (r *Report) Plot(path string) error {
	p := plot.New()
	p.Title.Text = r.Headline()
	p.X.Label.Text = "audio, s"
	p.Y.Label.Text = "output after a tick's last sample, ms"
	p.Y.Min = 0
	p.Add(plotter.NewGrid())
	for i, run := range r.Runs {
		points := make(plotter.XYs, len(run.ticks))
		for j, ms := range run.ticks {
			points[j] = plotter.XY{X: float64(j+1) * tickTime.Seconds(), Y: ms}
		}
		if len(points) == 0 {
			return fmt.Errorf("bench: plot: %s mode has no ticks", r.Mode)
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return fmt.Errorf("bench: plot: %w", err)
		}
		shade := uint8(160 * i / len(r.Runs))
		line.Color = color.RGBA{R: shade, G: 70 + shade/2, B: 160, A: 255}
		p.Add(line)
	}
	deadline, err := plotter.NewLine(plotter.XYs{{X: 0, Y: milliseconds(tickTime)}, {X: r.AudioSeconds, Y: milliseconds(tickTime)}})
	if err != nil {
		return fmt.Errorf("bench: plot: %w", err)
	}
	deadline.Color = color.RGBA{R: 200, A: 255}
	deadline.Dashes = []vg.Length{vg.Points(6), vg.Points(3)}
	p.Add(deadline)
	p.Legend.Add("80 ms", deadline)
	p.Legend.Top = true
	return writePNG(path, p)
}

// writePNG leaves either the old file or all of the new one.
func writePNG(path string, p *plot.Plot) (err error) {
	canvas := vgimg.PngCanvas{Canvas: vgimg.New(22*vg.Centimeter, 11*vg.Centimeter)}
	p.Draw(draw.New(canvas))
	f, err := os.CreateTemp(filepath.Dir(path), ".voxtral-*.png")
	if err != nil {
		return fmt.Errorf("bench: plot: %w", err)
	}
	_, err = canvas.WriteTo(f)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("bench: plot: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
