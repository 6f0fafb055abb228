package audio

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

const (
	untilEnd = -1 // size of a data chunk that ends with the input

	rawBlock = 16 << 10 // bytes read at once
)

// wavReader reads one WAV from a stream, forward only. Its errors do not name the input.
type wavReader struct {
	wavFormat
	r      *bufio.Reader
	offset int64 // of r in the input while in the header
	odd    bool  // the chunk just passed has an odd size, so a pad byte may follow
	empty  bool  // a data chunk of size 0 has been passed, and only other chunks follow

	container string
	ds64      int64 // data size of an RF64 file, or untilEnd
	size      int64 // bytes of the data chunk, or untilEnd
	got       int64 // bytes of it read

	raw   [rawBlock]byte
	part  int // bytes at the start of raw that are not a whole frame yet
	ended bool

	notNumbers, clipped int64 // float samples changed by sanitise
	warnings            []string
}

// newWAVReader reads the header, up to the audio.
func newWAVReader(r *bufio.Reader) (*wavReader, error) {
	w := &wavReader{r: r, container: "wav", ds64: untilEnd}
	var head [12]byte
	if err := w.fill(head[:]); err != nil {
		return nil, err
	}
	if string(head[:4]) != "RIFF" {
		w.container = "rf64"
	}
	for {
		audio, err := w.chunk()
		if w.empty && errors.Is(err, io.ErrUnexpectedEOF) {
			return w, nil
		}
		if err != nil {
			return nil, err
		}
		if audio {
			return w, nil
		}
	}
}

// chunk takes the next chunk of the header and says whether audio follows.
func (w *wavReader) chunk() (audio bool, err error) {
	if err := w.skipPad(); err != nil {
		return false, err
	}
	var head [8]byte
	if err := w.fill(head[:]); err != nil {
		return false, err
	}
	id, size := string(head[:4]), int64(binary.LittleEndian.Uint32(head[4:]))
	if !printable(head[:4]) {
		return false, fmt.Errorf("WAV has no chunk at byte %d, where one should begin (found % x)", w.offset-8, head[:4])
	}
	w.odd = size%2 == 1
	var body [fmtExtensible]byte
	switch id {
	case "data":
		return w.beginData(size)
	case "fmt ":
		b := body[:min(size, fmtExtensible)]
		if err := w.fill(b); err != nil {
			return false, err
		}
		f, err := parseFormat(b)
		if err != nil {
			return false, err
		}
		w.wavFormat = *f
		size -= int64(len(b))
	case "ds64":
		b := body[:min(size, 16)]
		if err := w.fill(b); err != nil {
			return false, err
		}
		if len(b) == 16 {
			w.ds64 = int64(min(binary.LittleEndian.Uint64(b[8:]), math.MaxInt64))
		}
		size -= int64(len(b))
	}
	return false, w.skip(size)
}

// beginData decides where the audio ends. Recorders that were cut off leave a size of 0 before their audio; an empty file
// has nothing or another chunk after it.
func (w *wavReader) beginData(size int64) (audio bool, err error) {
	if w.decode == nil {
		return false, fmt.Errorf("WAV has its data chunk at byte %d before any fmt chunk", w.offset-8)
	}
	switch {
	case placeholder(size):
		w.size = untilEnd
		if w.ds64 > 0 && w.ds64 < math.MaxInt64 {
			w.size = w.ds64
		}
	case size > 0:
		w.size = size
	default:
		next, err := w.r.Peek(4)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if len(next) == 0 || knownChunk(next) {
			w.empty = true
			return false, nil
		}
		w.size = untilEnd
		w.warn("the header says there is no audio, as in a recording that was cut off: reading to the end")
	}
	return true, nil
}

// placeholder says whether a data size is what programs write that stream and cannot come back to fill it in: 0xFFFFFFFF
// (ffmpeg), 0x7FFFF000 (sox), 0x80000000 (arecord) and what lies up to 4 KiB below, for sizes that count a header.
func placeholder(size int64) bool {
	const slack = 4096
	for _, top := range []int64{math.MaxUint32, 1 << 31} {
		if size <= top && size >= top-slack {
			return true
		}
	}
	return false
}

// skipPad passes the pad byte that should follow a chunk of odd size and that some writers leave out.
func (w *wavReader) skipPad() error {
	if !w.odd {
		return nil
	}
	w.odd = false
	next, err := w.r.Peek(5)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	padded := len(next) == 5 && knownChunk(next[1:])
	if len(next) >= 4 && !padded && printable(next[:4]) {
		return nil
	}
	return w.skip(1)
}

// fill reads all of b.
func (w *wavReader) fill(b []byte) error {
	n, err := io.ReadFull(w.r, b)
	w.offset += int64(n)
	return w.headerError(err)
}

func (w *wavReader) skip(n int64) error {
	for n > 0 {
		m, err := w.r.Discard(int(min(n, 1<<30)))
		w.offset += int64(m)
		n -= int64(m)
		if err != nil {
			return w.headerError(err)
		}
	}
	return nil
}

func (w *wavReader) headerError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("WAV ends after %d bytes, before its audio: %w", w.offset, io.ErrUnexpectedEOF)
	}
	return err
}

// read decodes what the input has ready, at least one frame and at most what fits in dst, interleaved. It returns the
// number of frames, or 0 and io.EOF after the last. dst must hold a frame.
func (w *wavReader) read(dst []float32) (frames int, err error) {
	for !w.ended {
		want := min(len(w.raw), len(dst)/w.channels*w.width*w.channels)
		if w.size != untilEnd {
			want = int(min(int64(want), int64(w.part)+w.size-w.got))
		}
		var n int
		err = io.EOF
		if want > w.part {
			n, err = w.r.Read(w.raw[w.part:want])
		}
		w.got += int64(n)
		w.part += n
		switch {
		case errors.Is(err, io.EOF):
			w.ended = true
		case err != nil:
			return 0, err
		}
		frames = w.part / w.frame()
		if frames > 0 {
			used := frames * w.frame()
			dst = dst[:frames*w.channels]
			w.decode(dst, w.raw[:used])
			w.part = copy(w.raw[:], w.raw[used:w.part])
			if w.float {
				notNumbers, clipped := sanitise(dst)
				w.notNumbers += notNumbers
				w.clipped += clipped
			}
		}
		if w.ended {
			w.finish()
		}
		if frames > 0 {
			return frames, nil
		}
	}
	return 0, io.EOF
}

// finish notes what was wrong with the audio as a whole.
func (w *wavReader) finish() {
	if w.size != untilEnd && w.got < w.size {
		w.warn("the audio is cut off: %s of the %s its header promises are there", w.seconds(w.got), w.seconds(w.size))
	}
	if w.part > 0 {
		w.warn("the last %d bytes are not a whole sample of every channel and are left out", w.part)
	}
	if w.notNumbers > 0 {
		w.warn("%d samples are not finite numbers and are taken as 0", w.notNumbers)
	}
	if w.clipped > 0 {
		w.warn("%d samples lie outside -1..1 and are clipped", w.clipped)
	}
}

func (w *wavReader) seconds(bytes int64) string {
	return fmt.Sprintf("%.2f s", float64(bytes)/float64(w.frame())/float64(w.rate))
}

func (w *wavReader) warn(format string, args ...any) {
	w.warnings = append(w.warnings, fmt.Sprintf(format, args...))
}

// frames returns the expected length of the audio in frames, or -1.
func (w *wavReader) frames() int64 {
	if w.size == untilEnd {
		return -1
	}
	return w.size / int64(w.frame())
}

func printable(id []byte) bool {
	for _, c := range id {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// knownChunks are the chunks found in WAV files in the field, besides the data chunk.
var knownChunks = strings.Fields("fmt data fact LIST list JUNK junk PAD FLLR PEAK bext iXML axml cue plst labl note smpl inst " +
	"id3 ID3 _PMX C2PA ds64 DISP acid strc umid chna cart minf elm1 regn afsp LGWV levl SAUR")

func knownChunk(id []byte) bool {
	name := strings.TrimRight(string(id[:min(4, len(id))]), " ")
	for _, k := range knownChunks {
		if len(id) >= 4 && name == k {
			return true
		}
	}
	return false
}
