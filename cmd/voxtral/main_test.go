package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/audio"
	"voxtral/hip"
)

const (
	hello      = "../../examples/hello.wav" // 16 kHz, mono, 16 bit
	checkpoint = "../../internal/golden/testdata/tiny-a/mistral"
)

// binary is the program, built once.
var binary string

func TestMain(m *testing.M) {
	if hip.RunChild() {
		return
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "voxtral-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "voxtral")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	os.Unsetenv(modelVariable)
	return m.Run()
}

// result is what a run of the program left.
type result struct {
	stdout, stderr string
	code           int // -1 when a signal ended it
}

func voxtral(t *testing.T, args ...string) result {
	t.Helper()
	return voxtralReading(t, nil, args...)
}

func voxtralReading(t *testing.T, stdin io.Reader, args ...string) result {
	t.Helper()
	cmd := exec.Command(binary, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	require.NotContains(t, errs.String(), "goroutine ", "a stack trace")
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// helloText is what "transcribe -q" prints for the clip; empty if that failed.
var helloText = sync.OnceValue(func() string {
	out, err := exec.Command(binary, "transcribe", "-q", hello).Output()
	if err != nil {
		return ""
	}
	return string(out)
})

// speech is the samples of the hello clip as bytes, without its header.
func speech(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(hello)
	require.NoError(t, err)
	at := bytes.Index(data, []byte("data"))
	require.Positive(t, at)
	return data[at+8:]
}

// endless is the header of a 16 kHz, 16-bit WAV of unknown length.
const endless = "RIFF\xff\xff\xff\xffWAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x80\x3e\x00\x00\x00\x7d\x00\x00\x02\x00\x10\x00data\xff\xff\xff\xff"

func tone(t *testing.T, name string, seconds, level float64) string {
	t.Helper()
	pcm := make([]float32, int(seconds*audio.SampleRate))
	for i := range pcm {
		pcm[i] = float32(level * math.Sin(2*math.Pi*440*float64(i)/audio.SampleRate))
	}
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, audio.WriteWAV(path, pcm, audio.SampleRate))
	return path
}

func silence(t *testing.T) string { return tone(t, "silence.wav", 1.5, 0) }

// A mistake in the command line is one line, a hint and exit code 2; nothing reaches standard output.
func TestUsageErrors(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"transcribe", "no input"},
		{"transcribe --delay 100 a.wav", "80 to 1200 milliseconds in steps of 80, or 2400"},
		{"transcribe --delay 0 a.wav", "80 to 1200"},
		{"transcribe --delay 1280 a.wav", "80 to 1200"},
		{"transcribe --delay soon a.wav", "80 to 1200"},
		{"transcribe --format doc a.wav", "text, json, srt, vtt or tsv"},
		{"transcribe --device tpu a.wav", "use auto, cpu, gpu, gpu:N, hip:N or cuda:N"},
		{"transcribe --device cpu:0 a.wav", "--device cpu:0 is unknown"},
		{"transcribe --device hip: a.wav", "--device hip: is unknown"},
		{"transcribe --device gpu:-1 a.wav", "--device gpu:-1 is unknown"},
		{"transcribe --sdpa flash a.wav", "auto, standard or splitk"},
		{"transcribe --step giant a.wav", "auto, kernels or whole"},
		{"transcribe --device cpu --sdpa splitk a.wav", "needs a GPU, the CPU has standard attention only"},
		{"transcribe --threads -1 a.wav", "--threads -1"},
		{"transcribe --channel -1 a.wav", "--channel -1"},
		{"transcribe -q -v a.wav", "contradict"},
		{"transcribe --format srt a.wav b.wav", "--output-dir"},
		{"transcribe - -", "twice"},
		{"transcribe --nonsense a.wav", "--nonsense"},
		{"quantize", "no model"},
		{"quantize dir", "-o FILE"},
		{"quantize dir -o x --format int3", "int4, int8 or bf16"},
		{"quantize dir -o x --head f32", "int4, int8 or bf16"},
		{"quantize dir -o x --group 33", "32, 64 or 128"},
		{"inspect a b", `"b"`},
		{"version now", `"now"`},
		{"trancribe a.wav", `"transcribe"`},
		{hello, "voxtral transcribe " + hello},
	} {
		r := voxtral(t, strings.Fields(c.args)...)
		require.Equal(t, exitUsage, r.code, c.args)
		require.Empty(t, r.stdout, c.args)
		require.Contains(t, r.stderr, c.want, c.args)
		lines := strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n")
		require.Len(t, lines, 2, c.args)
		require.True(t, strings.HasPrefix(lines[0], "voxtral: "), c.args)
		require.Regexp(t, `^see 'voxtral.* --help'$`, lines[1], c.args)
	}
}

func TestModelThatIsNotThere(t *testing.T) {
	r := voxtral(t, "transcribe", "--model", "nowhere", hello)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "nowhere")
	require.Contains(t, r.stderr, modelVariable)
	require.Equal(t, 1, strings.Count(r.stderr, "\n"))

	t.Setenv(modelVariable, "nowhere-either")
	r = voxtral(t, "transcribe", hello)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "nowhere-either")
}

// Every command shows how it is used, in lines that fit a terminal.
func TestHelp(t *testing.T) {
	for _, name := range []string{"", "transcribe", "listen", "quantize", "inspect", "eval", "devices", "version"} {
		r := voxtral(t, strings.Fields(name+" --help")...)
		require.Equal(t, exitOK, r.code)
		require.Empty(t, r.stderr)
		require.Contains(t, r.stdout, "Examples:\n  voxtral")
		for line := range strings.Lines(r.stdout) {
			require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 100, line)
		}
	}
}
