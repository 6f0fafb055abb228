package audio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the fuzz seeds anew from the table")

const seedDir = "testdata/fuzz/FuzzWAV"

// Invariant: the committed fuzz seeds are the table of field rows.
func TestFuzzSeeds(t *testing.T) {
	rows := fieldRows(t)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		name := strings.Map(func(r rune) rune {
			if r == ' ' || r == ',' {
				return '_'
			}
			return r
		}, row.name)
		text := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\nint(%d)\n", row.data, row.opt.Channel)
		path := filepath.Join(seedDir, name)
		if *update {
			require.NoError(t, os.MkdirAll(seedDir, 0o755))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}
		committed, err := os.ReadFile(path)
		require.NoError(t, err, "run: go test ./audio -run TestFuzzSeeds -update")
		require.Equal(t, text, string(committed), "run: go test ./audio -run TestFuzzSeeds -update")
	}
}

// Invariant: no bytes make the WAV path panic, allocate more than 4 times the input and 1 MB, return a sample outside
// [-1,1], or end without a sample, an error or a warning although the input has audio.
func FuzzWAV(f *testing.F) {
	kernel() // made once for the whole program, whatever the input
	f.Fuzz(func(t *testing.T, data []byte, channel int) {
		if kind := sniff(data); kind != "wav" && kind != "rf64" && kind != "" {
			t.Skip("left to ffmpeg")
		}
		t.Setenv("PATH", "") // nor are WAVs with an encoding of their own
		most := uint64(4*len(data) + 1<<20)
		used := most + 1
		var samples, warnings int
		var err error
		for try := 0; try < 3 && used > most; try++ { // the fuzzing engine allocates too, now and then
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			samples, warnings, err = drain(t, data, Options{Channel: channel})
			runtime.ReadMemStats(&after)
			used = after.TotalAlloc - before.TotalAlloc
		}
		if used > most {
			t.Fatalf("%d bytes of input allocated %d bytes, want at most %d", len(data), used, most)
		}
		if samples == 0 && warnings == 0 && err == nil && hasAudio(data) {
			t.Fatal("audio became nothing, without a word")
		}
	})
}

func drain(t *testing.T, data []byte, opt Options) (samples, warnings int, err error) {
	s, err := NewStream(context.Background(), bytes.NewReader(data), "fuzz", opt)
	if err != nil {
		return 0, 0, err
	}
	var block [512]float32
	for {
		n, err := s.Read(block[:])
		for _, x := range block[:n] {
			if !(x >= -1 && x <= 1) {
				t.Fatalf("sample %v", x)
			}
		}
		samples += n
		if errors.Is(err, io.EOF) {
			return samples, len(s.Warnings()), s.Close()
		}
		if err != nil {
			_ = s.Close()
			return samples, 0, err
		}
	}
}

// hasAudio walks a well-formed WAV by the book and says whether its first data chunk has bytes.
func hasAudio(data []byte) bool {
	for at := 12; at+8 < len(data); {
		size := int(binary.LittleEndian.Uint32(data[at+4:]))
		if string(data[at:at+4]) == "data" {
			return size > 0
		}
		at += 8 + size + size%2
	}
	return false
}
