package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"slices"

	"voxtral/audio"
	"voxtral/cpu"
	"voxtral/models"
	"voxtral/runtime"
)

// Open a model on the CPU, transcribe a file piece by piece, and use the session again.
func Example() {
	if err := transcribeTwice("../examples/hello.wav"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// mother. 3.12s
	// mother. 3.12s
}

func transcribeTwice(path string) error {
	model, err := models.Demo() // or models.Open("path/to/checkpoint")
	if err != nil {
		return err
	}
	defer model.Close()
	dev, err := cpu.Open(0)
	if err != nil {
		return err
	}
	defer dev.Close()
	engine, err := runtime.Open(model, dev)
	if err != nil {
		return err
	}
	defer engine.Close()
	session, err := engine.NewSession(runtime.Options{})
	if err != nil {
		return err
	}
	defer session.Close()

	for range 2 {
		words, err := transcribeFile(session, path)
		if err != nil {
			return err
		}
		last := words[len(words)-1]
		fmt.Println(last.Text, last.End)
		session.Reset()
	}
	return nil
}

func transcribeFile(session *runtime.Session, path string) ([]runtime.Word, error) {
	clip, err := audio.Open(context.Background(), path, audio.Options{})
	if err != nil {
		return nil, err
	}
	defer clip.Close()
	assembler := session.Words()
	var words []runtime.Word
	pcm := make([]float32, audio.SampleRate/10)
	for {
		n, err := clip.Read(pcm)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := session.Feed(pcm[:n]); err != nil {
			return nil, err
		}
		for ev := range session.Events() { // ev.Text, ev.Time, ev.Token
			words = slices.Concat(words, assembler.Add(ev))
		}
	}
	if err := session.Finish(); err != nil {
		return nil, err
	}
	for ev := range session.Events() {
		words = slices.Concat(words, assembler.Add(ev))
	}
	return slices.Concat(words, assembler.Flush()), nil
}
