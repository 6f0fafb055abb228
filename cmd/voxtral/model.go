package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"voxtral/models"
)

const modelVariable = "VOXTRAL_MODEL"

// openModel opens what --model or, failing that, VOXTRAL_MODEL names; with neither, the built-in model.
func openModel(path string) (m *models.Model, builtIn bool, err error) {
	if path == "" {
		path = os.Getenv(modelVariable)
	}
	if path == "" {
		m, err = models.Demo()
		return m, true, err
	}
	m, err = models.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: --model and %s name a model directory or a packed file", err, modelVariable)
	}
	return m, false, err
}

// byteSize prints a size in the units that file managers use.
func byteSize(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d bytes", n)
}

// count prints a number of parameters: 4.43 B, 1.9 M, 512.
func count(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f B", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2f M", float64(n)/1e6)
	}
	return fmt.Sprint(n)
}
