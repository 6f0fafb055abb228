package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"

	"voxtral/audio"
	"voxtral/cpu"
	"voxtral/models"
	"voxtral/runtime"
)

// Open a model on the CPU, transcribe a file, and use the session again.
func Example() {
	model, err := models.Demo() // or models.Open("path/to/checkpoint")
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	dev, err := cpu.Open(0)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	engine, err := runtime.Open(model, dev)
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	session, err := engine.NewSession(runtime.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	for range 2 {
		clip, err := audio.Open(context.Background(), "../examples/hello.wav", audio.Options{})
		if err != nil {
			log.Fatal(err)
		}
		words := runtime.NewWords(model)
		var last runtime.Word
		pcm := make([]float32, audio.SampleRate/10)
		for {
			n, err := clip.Read(pcm)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				log.Fatal(err)
			}
			if err := session.Feed(pcm[:n]); err != nil {
				log.Fatal(err)
			}
			for ev := range session.Events() { // ev.Text, ev.Time, ev.Token
				for _, word := range words.Add(ev) {
					last = word
				}
			}
		}
		if err := session.Finish(); err != nil {
			log.Fatal(err)
		}
		for ev := range session.Events() {
			for _, word := range words.Add(ev) {
				last = word
			}
		}
		for _, word := range words.Flush() {
			last = word
		}
		fmt.Println(last.Text, last.End)
		clip.Close()
		session.Reset()
	}
	// Output:
	// house. 4s
	// house. 4s
}
