package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"voxtral/audio"
)

// helloAgain is the clip a few times, with pauses, as 16-bit samples at 16 kHz.
func helloAgain(t *testing.T, times int) []byte {
	t.Helper()
	pause := make([]byte, 2*audio.SampleRate)
	return bytes.Repeat(append(speech(t), pause...), times)
}

func wavOf(samples []byte) io.Reader {
	return io.MultiReader(strings.NewReader(endless), bytes.NewReader(samples))
}

// What listen writes down of a pipe is what transcribe writes down of the file, in whatever form the audio comes.
func TestListenEqualsTranscribe(t *testing.T) {
	want := result{helloText(), "", exitOK}
	data, err := os.ReadFile(hello)
	require.NoError(t, err)
	mp3, err := exec.Command("ffmpeg", "-v", "error", "-i", hello, "-b:a", "192k", "-f", "mp3", "-").Output()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		stdin io.Reader
		args  string
	}{
		"WAV":                          {bytes.NewReader(data), ""},
		"without a length":             {wavOf(speech(t)), ""},
		"length 0":                     {io.MultiReader(strings.NewReader(endless[:40]+"\x00\x00\x00\x00"), bytes.NewReader(speech(t))), ""},
		"metadata after the audio":     {io.MultiReader(bytes.NewReader(data), strings.NewReader("LIST\x04\x00\x00\x00INFOid3 \x04\x00\x00\x00abcd")), ""},
		"raw":                          {bytes.NewReader(speech(t)), "--raw s16le"},
		"raw, the second channel":      {bytes.NewReader(besideSilence(speech(t))), "--raw s16le --channels 2 --channel 2"},
		"raw and a half sample":        {bytes.NewReader(append(speech(t), 1)), "--raw s16le --rate 16000"},
		"a writer that need not wait":  {bytes.NewReader(data), "--max-lag 60s"},
		"a container read with ffmpeg": {bytes.NewReader(mp3), ""},
	} {
		r := voxtralReading(t, c.stdin, append([]string{"listen", "-q", "-"}, strings.Fields(c.args)...)...)
		require.Equal(t, want, r, name)
	}
}

// besideSilence makes the samples the second of two channels.
func besideSilence(samples []byte) (stereo []byte) {
	for i := 0; i < len(samples); i += 2 {
		stereo = append(stereo, 0, 0, samples[i], samples[i+1])
	}
	return stereo
}

// Whatever is odd about the audio is said in one line.
func TestListenSaysWhatIsWrong(t *testing.T) {
	data, err := os.ReadFile(hello)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		stdin io.Reader
		args  string
		code  int
		want  string
	}{
		"nothing":        {strings.NewReader(""), "", exitFailed, "voxtral: standard input: is empty (0 bytes)"},
		"no audio":       {strings.NewReader("Dear reader, this is a letter"), "", exitFailed, "raw samples need a WAV header"},
		"half a header":  {bytes.NewReader(data[:30]), "", exitFailed, "WAV ends after 30 bytes"},
		"no rate":        {strings.NewReader(endless[:24] + "\x00\x00\x00\x00" + endless[28:]), "", exitFailed, "sample rate of 0 Hz"},
		"cut off":        {bytes.NewReader(data[:len(data)-1000]), "", exitOK, "warning: standard input: the audio is cut off"},
		"channel":        {bytes.NewReader(data), "--channel 2", exitFailed, "channel 2 asked for, but the audio has 1"},
		"no raw samples": {strings.NewReader(""), "--raw s16le", exitOK, "heard 0.0s of audio"},
	} {
		r := voxtralReading(t, c.stdin, append([]string{"listen", "-"}, strings.Fields(c.args)...)...)
		require.Equal(t, c.code, r.code, name)
		require.Contains(t, r.stderr, c.want, name)
		require.Equal(t, 1, strings.Count(r.stderr, c.want), name)
	}
}

func TestListenUsage(t *testing.T) {
	for args, want := range map[string]string{
		"listen --url x -":                     "one at a time",
		"listen --input x -":                   "one at a time",
		"listen --input x --url y":             "one at a time",
		"listen --raw s16le":                   "add -",
		"listen talk.wav":                      "voxtral transcribe talk.wav",
		"listen - -":                           "unexpected",
		"listen --format tsv -":                "text, json, srt or vtt",
		"listen --delay 90 -":                  "80 to 1200",
		"listen --raw mp3 -":                   "s16le, f32le",
		"listen --raw s16le --rate 100 -":      "100 Hz",
		"listen --raw s16le --channels 0 -":    "0 channels",
		"listen --rate 8000 -":                 "--raw",
		"listen --max-lag 10ms -":              "at least 1s",
		"listen --channel -1 -":                "count from 1",
		"listen --device cpu --sdpa splitk - ": "needs a GPU",
		"listen --restart-after -1s -":         "--restart-after -1s",
		"listen -q -v -":                       "contradict",
	} {
		r := voxtral(t, strings.Fields(args)...)
		require.Equal(t, exitUsage, r.code, args)
		require.Contains(t, r.stderr, want, args)
		require.Equal(t, 2, strings.Count(r.stderr, "\n"), args)
	}
}

// JSON is an object a line: words as transcribe has them, then the end.
func TestListenJSON(t *testing.T) {
	samples := helloAgain(t, 2)
	var doc transcriptJSON
	r := voxtralReading(t, wavOf(samples), "transcribe", "-q", "-f", "json", "-")
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc))
	require.Len(t, doc.Words, 24, "the clip has twelve words")

	r = voxtralReading(t, wavOf(samples), "listen", "-q", "-f", "json", "--restart-after", "1h", "-")
	require.Equal(t, exitOK, r.code, r.stderr)
	lines := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
	for i, line := range lines {
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if i == len(lines)-1 {
			require.JSONEq(t, `{"type":"end","duration":9.507,"heard":9.507}`, line)
			break
		}
		var word struct {
			Type, Text string
			Start, End float64
		}
		require.NoError(t, dec.Decode(&word), line)
		require.Equal(t, "word", word.Type)
		require.Equal(t, doc.Words[i], spanJSON{word.Text, word.Start, word.End})
	}
	require.Len(t, lines, len(doc.Words)+1)
}

// Subtitles that are written as they come are those of the whole.
func TestListenSubtitles(t *testing.T) {
	samples := helloAgain(t, 3)
	for _, format := range []string{"srt", "vtt"} {
		want := voxtralReading(t, wavOf(samples), "transcribe", "-q", "-f", format, "-")
		require.Greater(t, strings.Count(want.stdout, "-->"), 2)
		require.Equal(t, want, voxtralReading(t, wavOf(samples), "listen", "-q", "-f", format, "--restart-after", "1h", "-"))
	}
	silent := wavOf(make([]byte, audio.SampleRate))
	require.Equal(t, result{"WEBVTT\n", "", exitOK}, voxtralReading(t, silent, "listen", "-q", "-f", "vtt", "-"))
}

// Silence is no text, and no words are lost at the edges: speech that begins with the first sample and ends with the last.
func TestListenEdges(t *testing.T) {
	silent := make([]byte, 60*2*audio.SampleRate)
	require.Equal(t, result{"\n", "", exitOK}, voxtralReading(t, wavOf(silent), "listen", "-q", "-"))
	samples := speech(t)
	first, last := 0, len(samples)
	for loud(samples[first:]) == 0 {
		first += 2
	}
	for loud(samples[last-2:]) == 0 {
		last -= 2
	}
	r := voxtralReading(t, wavOf(samples[first:last]), "listen", "-q", "-")
	require.Equal(t, result{helloText(), "", exitOK}, r)
}

// loud is the first sample when it is more than noise.
func loud(samples []byte) int16 {
	const noise = 300
	x := int16(uint16(samples[0]) | uint16(samples[1])<<8)
	if x > -noise && x < noise {
		return 0
	}
	return x
}

// Ctrl-C ends the audio, and the exit code is 0.
func TestListenInterrupt(t *testing.T) {
	r := interrupted(t, "garden", speech(t), "listen", "-")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "stopping")
	require.Contains(t, r.stderr, "of audio, RTF")
	require.Contains(t, r.stdout, "garden")
	require.True(t, strings.HasSuffix(r.stdout, "\n"))

	r = interrupted(t, "garden", speech(t), "listen", "-q", "-f", "json", "-")
	require.Equal(t, exitOK, r.code)
	require.Empty(t, r.stderr)
	lines := strings.Split(r.stdout, "\n")
	require.Contains(t, lines[len(lines)-2], `{"type":"end"`)
}

// interrupted runs the program on samples after which the pipe stays open, and sends Ctrl-C once it has written a word.
func interrupted(t *testing.T, word string, samples []byte, args ...string) result {
	t.Helper()
	cmd := exec.Command(binary, args...)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	_, err = stdin.Write(append([]byte(endless), samples...))
	require.NoError(t, err)
	var stdout strings.Builder
	for block := make([]byte, 1024); !strings.Contains(stdout.String(), word); {
		n, err := out.Read(block)
		require.NoError(t, err)
		stdout.Write(block[:n])
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_, err = io.Copy(&stdout, out)
	require.NoError(t, err)
	_ = cmd.Wait() // its code is in the state
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// When the first Ctrl-C cannot end the program because nobody takes its text, the second one does.
func TestListenSecondInterrupt(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	// Fill the pipe, so that the first word does not fit.
	raw, err := w.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Write(func(fd uintptr) bool {
		for {
			if _, err := syscall.Write(int(fd), make([]byte, 512)); err != nil {
				return true
			}
		}
	}))
	cmd := exec.Command(binary, "listen", "-")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	cmd.Stdout = w
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	_, err = stdin.Write(append([]byte(endless), speech(t)...))
	require.NoError(t, err)
	_, err = io.ReadFull(stderr, make([]byte, 1))
	require.NoError(t, err, "signals are handled once there are messages")
	ended := make(chan error)
	go func() {
		_, _ = io.Copy(io.Discard, stderr)
		ended <- cmd.Wait()
	}()
	for sent := 0; ; sent++ {
		select {
		case err := <-ended:
			require.Error(t, err)
			require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
			require.GreaterOrEqual(t, sent, 2)
			return
		case <-time.After(100 * time.Millisecond):
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
}

// A reader that has gone, and a full disk, are one clear message.
func TestListenCannotWrite(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	defer w.Close()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	wav := filepath.Join(t.TempDir(), "talk.wav")
	for want, out := range map[string]*os.File{"broken pipe": w, "no space left": full} {
		for _, format := range []string{"text", "json", "srt", "vtt"} {
			cmd := exec.Command(binary, "listen", "-q", "-f", format, "--save", wav, "-")
			var errs bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = wavOf(speech(t)), out, &errs
			require.Error(t, cmd.Run())
			require.Equal(t, exitFailed, cmd.ProcessState.ExitCode())
			require.Equal(t, 1, strings.Count(errs.String(), "\n"))
			require.True(t, strings.HasPrefix(errs.String(), "voxtral: standard output: "), errs.String())
			require.Contains(t, errs.String(), want)
			require.Equal(t, exitOK, voxtral(t, "transcribe", "-q", wav).code)
		}
	}
}

// What ffmpeg opens is heard like a file; what it cannot open is one line in its words, and nothing is left running.
func TestListenURL(t *testing.T) {
	want := result{helloText(), "", exitOK}
	path, err := filepath.Abs(hello)
	require.NoError(t, err)
	flac := filepath.Join(t.TempDir(), "hello.flac")
	require.NoError(t, exec.Command("ffmpeg", "-v", "error", "-i", hello, flac).Run())
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(flac))))
	defer server.Close()
	for _, url := range []string{path, "file:" + flac, server.URL + "/hello.flac"} {
		require.Equal(t, want, voxtral(t, "listen", "-q", "--url", url), url)
	}
	text := filepath.Join(t.TempDir(), "letter.txt")
	require.NoError(t, os.WriteFile(text, []byte("Dear reader"), 0o600))
	for url, why := range map[string]string{
		"/nowhere/talk.mp3": "No such file", server.URL + "/none.flac": "404", "nonsense://x": "Protocol not found", text: "Invalid data",
	} {
		r := voxtral(t, "listen", "-q", "--url", url)
		require.Equal(t, exitFailed, r.code, url)
		require.Empty(t, strings.TrimSpace(r.stdout))
		require.True(t, strings.HasPrefix(r.stderr, "voxtral: "+url+": ffmpeg: "), r.stderr)
		require.Contains(t, r.stderr, why)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
	}
	r := voxtral(t, "listen", "--url", flac, "--save", flac)
	require.Equal(t, exitUsage, r.code, "the file is the audio")
	t.Setenv("PATH", "")
	r = voxtral(t, "listen", "-q", "--url", path)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "needs the ffmpeg program")
}

// Ctrl-C stops ffmpeg as well.
func TestListenURLInterrupted(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	cmd := exec.Command(binary, "listen", "-q", "--url", fifo)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	w, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer w.Close()
	_, err = io.Copy(w, wavOf(helloAgain(t, 2)))
	require.NoError(t, err)
	first := make([]byte, 3)
	_, err = io.ReadFull(out, first)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait(), stderr.String())
	require.Empty(t, stderr.String())
	require.Regexp(t, `^She.*\n$`, string(first)+string(rest))
	_, err = w.Write(make([]byte, 1<<17))
	require.ErrorIs(t, err, syscall.EPIPE, "nobody reads any more")
}

// A microphone that is not there is one line that says so.
func TestListenUnknownMicrophone(t *testing.T) {
	r := voxtral(t, "listen", "-q", "--input", "a microphone that nobody has")
	require.Equal(t, exitFailed, r.code)
	require.Empty(t, strings.TrimSpace(r.stdout))
	require.Regexp(t, `^voxtral: microphone: (no sound system answers|no input is called|there is none).*\n$`, r.stderr)
}

// A writer that need not wait loses what is above --max-lag: told on standard error, in JSON, and at the end, and the
// numbers add up.
func TestListenMaxLag(t *testing.T) {
	samples := helloAgain(t, 30)
	r := voxtralReading(t, bytes.NewReader(samples), "listen", "-f", "json", "--raw", "s16le", "--max-lag", "4s", "-")
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.stderr, "warning: standard input: the model lags behind: dropped ")
	require.Regexp(t, `late ticks: \d+ of \d+, dropped: \d+\.\d\d s of silence and \d+\.\d\d s of other audio`, r.stderr)
	lost, silence := 0.0, 0.0
	var last liveJSON
	for line := range strings.Lines(r.stdout) {
		last = liveJSON{}
		require.NoError(t, json.Unmarshal([]byte(line), &last))
		if last.Type == "dropped" {
			require.Less(t, *last.Start, *last.End)
			lost += *last.End - *last.Start
			if *last.Silence {
				silence += *last.End - *last.Start
			}
		}
	}
	require.Positive(t, lost)
	require.Positive(t, silence)
	require.InDelta(t, float64(len(samples))/2/audio.SampleRate, *last.Duration, 0.002)
	require.InDelta(t, *last.Duration, *last.Heard+lost, 0.1)

	r = voxtralReading(t, bytes.NewReader(samples), "listen", "-q", "--raw", "s16le", "--max-lag", "1s", "-")
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.stderr, "of other audio", "lost speech is told even under -q")
}

// Clipped audio is heard, and the user is told what to do about it.
func TestListenClipping(t *testing.T) {
	samples := speech(t)
	loudly := make([]byte, 0, len(samples))
	for i := 0; i < len(samples); i += 2 {
		x := max(-32768, min(32767, 20*int(int16(uint16(samples[i])|uint16(samples[i+1])<<8))))
		loudly = append(loudly, byte(x), byte(x>>8))
	}
	r := voxtralReading(t, wavOf(loudly), "listen", "-")
	require.Equal(t, exitOK, r.code)
	require.Regexp(t, `warning: standard input: \d\.\d s of the audio are clipped: a lower input level`, r.stderr)
	require.NotContains(t, voxtralReading(t, wavOf(samples), "listen", "-").stderr, "clipped")
}

// Half a minute with the built-in model, which starts afresh in pauses: every sentence is there, once, and at its time.
func TestListenRestarts(t *testing.T) {
	const times = 8
	samples := helloAgain(t, times)
	period := float64(len(samples)) / times / 2 / audio.SampleRate
	sentence := strings.TrimSpace(helloText())
	r := voxtralReading(t, wavOf(samples), "listen", "-v", "-")
	require.Equal(t, strings.TrimSuffix(strings.Repeat(sentence+" ", times), " ")+"\n", r.stdout)
	require.Regexp(t, `started afresh [1-9]\d* times`, r.stderr)

	r = voxtralReading(t, wavOf(samples), "listen", "-q", "-f", "json", "-")
	var words []liveJSON
	for line := range strings.Lines(r.stdout) {
		var word liveJSON
		require.NoError(t, json.Unmarshal([]byte(line), &word))
		if word.Type == "word" {
			words = append(words, word)
		}
	}
	each := len(strings.Fields(sentence))
	require.Len(t, words, times*each)
	for i, word := range words {
		require.Equal(t, words[i%each].Text, word.Text)
		require.InDelta(t, *words[i%each].End+period*float64(i/each), *word.End, 0.17, "two ticks: %v", word.Text)
		require.LessOrEqual(t, *word.Start, *word.End)
	}
}
