package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"voxtral/internal/subtitle"
)

// stdoutError is a failure to write to standard output: no later input can succeed.
type stdoutError struct{ error }

func (e stdoutError) Unwrap() error { return e.error }

// textStream writes the text of one input as it comes, and nothing at its end but one newline.
type textStream struct {
	w       io.Writer
	heading string // written first
	space   string // white space held back until text follows it
}

func (t *textStream) begin() error { return t.write(t.heading) }

func (t *textStream) add(text string) error {
	body := strings.TrimRight(t.space+text, " \t\r\n")
	t.space = (t.space + text)[len(body):]
	if body == "" {
		return nil
	}
	return t.write(body)
}

func (t *textStream) end() error { return t.write("\n") }

func (t *textStream) write(s string) error {
	if _, err := io.WriteString(t.w, s); err != nil {
		return stdoutError{fmt.Errorf("standard output: %w", err)}
	}
	return nil
}

// input is a file to transcribe, or standard input.
type input struct {
	path string // "-" is standard input
	name string // for people
	out  string // the file to write, empty for standard output
}

// plan names the inputs and their outputs, and finds two that would overwrite each other before any work is done.
func plan(paths []string, outputDir string, format subtitle.Format) ([]input, error) {
	inputs := make([]input, len(paths))
	written := map[string]string{}
	stdin := false
	for i, path := range paths {
		in := input{path: path, name: path}
		base := filepath.Base(path)
		if path == "-" {
			if stdin {
				return nil, usagef("standard input (-) is named twice")
			}
			stdin, in.name, base = true, "standard input", "stdin"
		}
		if outputDir != "" {
			in.out = filepath.Join(outputDir, strings.TrimSuffix(base, filepath.Ext(base))+format.Ext())
			if other, taken := written[in.out]; taken {
				return nil, usagef("%s and %s would both be written to %s: rename one, or give them different --output-dir", other, in.name, in.out)
			}
			written[in.out] = in.name
		}
		inputs[i] = in
	}
	return inputs, noInputOverwritten(inputs)
}

func noInputOverwritten(inputs []input) error {
	for _, writer := range inputs {
		out, err := os.Stat(writer.out)
		if err != nil {
			continue // nothing is there to overwrite
		}
		for _, in := range inputs {
			if info, err := os.Stat(in.path); err == nil && os.SameFile(info, out) {
				return usagef("the output %s would overwrite the input %s: choose another --output-dir", writer.out, in.name)
			}
		}
	}
	return nil
}

// writeFile writes a transcript so that the file is either the old one or all of the new one.
func writeFile(path string, format subtitle.Format, t *subtitle.Transcript) (err error) {
	var content bytes.Buffer
	if err := format.Write(&content, t); err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d.tmp", filepath.Base(path), os.Getpid()))
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(content.Bytes())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}
