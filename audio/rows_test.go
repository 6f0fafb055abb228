package audio

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// row is one WAV that broke a program in the field, made anew. R numbers are those of the users' list.
type row struct {
	name string
	data []byte
	opt  Options
	want []float32 // at 16 kHz
	warn string    // part of the one warning, or empty for none
	fail string    // part of the error
}

func fieldRows(t testing.TB) []row {
	const n = 300
	pcm := sweep(n)
	quiet := make([]float32, n)
	flipped := make([]float32, n)
	half := make([]float32, n)
	floats := make([]any, n)
	doubles := make([]any, n)
	for i, x := range pcm {
		flipped[i], half[i] = -x, x/2
		floats[i], doubles[i] = x, float64(x)
	}
	s8, s16, s24, s32 := encode(8, pcm), encode(16, pcm), encode(24, pcm), encode(32, pcm)
	f16k := fmtChunk(tagPCM, 1, 16000, 16)
	data := chunk("data", s16)
	wild := cat(le(float32(math.NaN()), float32(math.Inf(1)), float32(0.5), float32(-3)))
	// In A-law and mu-law the codes below are, by G.711's table: the smallest, a middle and the largest level, both signs.
	aCodes, aLevels := []byte{0xD5, 0x55, 0x80, 0x2A}, []float32{8. / 32768, -8. / 32768, 5504. / 32768, -32256. / 32768}
	muCodes, muLevels := []byte{0xFF, 0x7F, 0x8F, 0x00}, []float32{0, 0, 16764. / 32768, -32124. / 32768}
	list := chunk("LIST", []byte("INFOISFT\x06\x00\x00\x00voice\x00"))
	id3 := chunk("id3 ", []byte("ID3\x04\x00\x00\x00\x00\x00\x0b\x00TIT2 odd size.."))
	pad := func(rate int) []float32 { return resampled(t, rate, pcm) }

	return []row{
		{name: "plain 16-bit", data: riff(f16k, data), want: pcm},
		{name: "R1 extensible 16-bit", data: riff(extensible(tagPCM, 1, 16000, 16, 16), data), want: pcm},
		{name: "R1 extensible 24-bit", data: riff(extensible(tagPCM, 1, 16000, 24, 24), chunk("data", s24)), want: pcm},
		{name: "R1 extensible 24 valid bits in 32", data: riff(extensible(tagPCM, 1, 16000, 32, 24), chunk("data", s32)), want: pcm},
		{name: "R1 extensible float", data: riff(extensible(tagFloat, 1, 16000, 32, 32), chunk("data", le(floats...))), want: pcm},
		{name: "R1 extensible mu-law", data: riff(extensible(tagMuLaw, 1, 16000, 8, 8), chunk("data", muCodes)), want: muLevels},
		{name: "R1 extensible unknown GUID", fail: "sub-format",
			data: riff(chunk("fmt ", cat(fmtBody(tagExtensible, 1, 16000, 16), le(uint16(22), uint16(16), uint32(0)), []byte("sixteen bytes id"))), data)},
		{name: "R1 extensible too short", data: riff(chunk("fmt ", cat(fmtBody(tagExtensible, 1, 16000, 16), le(uint16(0)))), data), fail: "extensible"},
		{name: "R2 fmt chunk of 18 bytes", data: riff(chunk("fmt ", cat(fmtBody(tagPCM, 1, 16000, 16), le(uint16(0)))), data), want: pcm},
		{name: "R3 float32 with fact and PEAK",
			data: riff(chunk("fmt ", cat(fmtBody(tagFloat, 1, 16000, 32), le(uint16(0)))), chunk("fact", le(uint32(n))), chunk("PEAK", make([]byte, 16)), chunk("data", le(floats...))), want: pcm},
		{name: "R3 float64", data: riff(fmtChunk(tagFloat, 1, 16000, 64), chunk("data", le(doubles...))), want: pcm},
		{name: "R3 float32 with values that are no audio", data: riff(fmtChunk(tagFloat, 1, 16000, 32), chunk("data", wild)), want: []float32{0, 0, 0.5, -1}, warn: "finite"},
		{name: "R4 FLLR of 4 kB before data", data: riff(f16k, chunk("FLLR", make([]byte, 4044)), data), want: pcm},
		{name: "R5 JUNK first", data: riff(chunk("JUNK", make([]byte, 28)), f16k, data), want: pcm},
		{name: "R6 LIST and id3 after data", data: riff(f16k, data, list, id3), want: pcm},
		{name: "R7 C2PA and _PMX after data, 24 kHz", data: riff(fmtChunk(tagPCM, 1, 24000, 16), data, chunk("_PMX", []byte("<xmp/>")), chunk("C2PA", []byte("jumb"))), want: pad(24000)},
		{name: "R8 data size 0 with audio following", data: riff(f16k, bare("data", 0, s16)), want: pcm, warn: "cut off"},
		{name: "R8 data size 0 and no audio", data: riff(f16k, bare("data", 0, nil), list, id3), want: []float32{}},
		{name: "R8 data size 0 before the real data", data: riff(f16k, bare("data", 0, nil), list, data), want: pcm},
		{name: "R9 data size 0xFFFFFFFF", data: riff(f16k, list, bare("data", math.MaxUint32, s16)), want: pcm},
		{name: "R9 data size 0x7FFFF000", data: riff(f16k, bare("data", 0x7FFFF000, s16)), want: pcm},
		{name: "R9 data size 0x80000000", data: riff(f16k, bare("data", 1<<31, s16)), want: pcm},
		{name: "R9 RF64 with its size in ds64", want: pcm,
			data: cat([]byte("RF64\xff\xff\xff\xffWAVE"), chunk("ds64", le(uint64(0), uint64(2*n), uint64(n), uint32(0))), f16k, bare("data", math.MaxUint32, s16), list)},
		{name: "R10 data truncated", data: riff(f16k, bare("data", 2*n+4996, s16)), want: pcm, warn: "cut off"},
		{name: "R10 header truncated", data: riff(f16k)[:30], fail: "before its audio"},
		{name: "R10 no data chunk", data: riff(f16k, list), fail: "before its audio"},
		{name: "R11 no samples", data: riff(f16k, chunk("data", nil)), want: []float32{}},
		{name: "R11 no bytes", data: nil, fail: "empty"},
		{name: "R12 odd chunk with pad byte", data: riff(chunk("JUNK", []byte{1, 2, 3}), f16k, chunk("note", []byte("odd")), data), want: pcm},
		{name: "R12 odd chunk without pad byte", data: riff(bare("JUNK", 3, []byte{1, 2, 3}), f16k, bare("note", 3, []byte("odd")), data), want: pcm},
		{name: "R12 RIFF size wrong", data: cat([]byte("RIFF\x01\x00\x00\x00"), riff(f16k, data)[8:]), want: pcm},
		{name: "R12 odd data without pad byte", data: riff(fmtChunk(tagPCM, 1, 16000, 24), bare("data", 9, s24[:9])), want: pcm[:3]},
		{name: "R13 24-bit 48 kHz with LIST", data: riff(fmtChunk(tagPCM, 1, 48000, 24), list, chunk("data", s24)), want: pad(48000)},
		{name: "R14 8-bit unsigned", data: riff(fmtChunk(tagPCM, 1, 16000, 8), chunk("data", s8)), want: pcm},
		{name: "R14 32-bit 8 kHz", data: riff(fmtChunk(tagPCM, 1, 8000, 32), chunk("data", s32)), want: pad(8000)},
		{name: "A-law", data: riff(fmtChunk(tagALaw, 1, 16000, 8), chunk("data", aCodes)), want: aLevels},
		{name: "mu-law", data: riff(fmtChunk(tagMuLaw, 1, 16000, 8), chunk("data", muCodes)), want: muLevels},
		{name: "R15 22.05 kHz", data: riff(fmtChunk(tagPCM, 1, 22050, 16), data), want: pad(22050)},
		{name: "R16 stereo, one channel silent", data: riff(fmtChunk(tagPCM, 2, 16000, 16), chunk("data", encode(16, interleave(pcm, quiet)))), want: half},
		{name: "R16 stereo, the first channel", opt: Options{Channel: 1}, data: riff(fmtChunk(tagPCM, 2, 16000, 16), chunk("data", encode(16, interleave(pcm, quiet)))), want: pcm},
		{name: "R16 stereo antiphase", data: riff(fmtChunk(tagPCM, 2, 16000, 16), chunk("data", encode(16, interleave(pcm, flipped)))), want: quiet, warn: "cancel"},
		{name: "R16 stereo antiphase, the second channel", opt: Options{Channel: 2}, data: riff(fmtChunk(tagPCM, 2, 16000, 16), chunk("data", encode(16, interleave(pcm, flipped)))), want: flipped},
		{name: "R16 channel that is not there", opt: Options{Channel: 3}, data: riff(fmtChunk(tagPCM, 2, 16000, 16), data), fail: "channel 3 asked for, but the audio has 2"},
		{name: "R16 channel below 0", opt: Options{Channel: -1}, data: riff(f16k, data), fail: "count from 1"},
		{name: "R17 a text file", data: []byte("#EXTM3U\nfile:///etc/passwd\n"), fail: "no audio file"},
		{name: "R18 sample rate 0", data: riff(fmtChunk(tagPCM, 1, 0, 16), data), fail: "sample rate of 0 Hz"},
		{name: "R18 sample rate absurd", data: riff(fmtChunk(tagPCM, 1, 768000, 16), data), fail: "sample rate of 768000 Hz"},
		{name: "R18 no channels", data: riff(fmtChunk(tagPCM, 0, 16000, 16), data), fail: "0 channels"},
		{name: "R18 too many channels", data: riff(fmtChunk(tagPCM, 33, 16000, 16), data), fail: "33 channels"},
		{name: "R18 block align mismatch", fail: "block align of 3",
			data: riff(chunk("fmt ", le(uint16(1), uint16(1), uint32(16000), uint32(32000), uint16(3), uint16(16))), data)},
		{name: "R18 no bits", data: riff(fmtChunk(tagPCM, 1, 16000, 0), data), fail: "0 bits"},
		{name: "R18 more valid bits than bits", data: riff(extensible(tagPCM, 1, 16000, 16, 24), data), fail: "24 valid bits"},
		{name: "R18 fmt chunk of 14 bytes", data: riff(chunk("fmt ", fmtBody(tagPCM, 1, 16000, 16)[:14]), data), fail: "14 bytes"},
		{name: "R18 fmt chunk size of 512 MiB", data: riff(bare("fmt ", 512<<20, fmtBody(tagPCM, 1, 16000, 16)), data), fail: "before its audio"},
		{name: "R18 data before fmt", data: riff(data, f16k), fail: "before any fmt"},
		{name: "R18 no chunk where one should be", data: riff(f16k, make([]byte, 64)), fail: "no chunk at byte 36"},
		{name: "less than a frame", data: riff(fmtChunk(tagPCM, 2, 16000, 16), chunk("data", s16[:2])), want: []float32{}, warn: "not a whole sample"},
		{name: "32 channels", data: riff(fmtChunk(tagPCM, 32, 16000, 8), chunk("data", s8[:256])), opt: Options{Channel: 32},
			want: []float32{pcm[31], pcm[63], pcm[95], pcm[127], pcm[159], pcm[191], pcm[223], pcm[255]}},
	}
}

// Invariant: an odd header either gives exactly the samples that are there, with a warning when some are missing, or one
// error that says what is wrong. The input is a pipe that gives a few bytes at a time.
func TestFieldRows(t *testing.T) {
	for _, row := range fieldRows(t) {
		t.Run(row.name, func(t *testing.T) {
			got, s, err := decode(t, row.data, row.opt)
			if row.fail != "" {
				require.ErrorContains(t, err, row.fail)
				require.ErrorContains(t, err, "audio: input.wav: ")
				return
			}
			require.NoError(t, err)
			require.Len(t, got, len(row.want))
			require.InDeltaSlice(t, row.want, got, 1e-9)
			if row.warn == "" {
				require.Empty(t, s.Warnings())
			} else {
				require.Contains(t, s.Warnings()[0], row.warn)
			}
			done, total := s.Position()
			require.Equal(t, done, total)
			require.Equal(t, done, s.Info().Frames)
		})
	}
}
