package audio

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

const (
	tagPCM        = 0x0001
	tagFloat      = 0x0003
	tagALaw       = 0x0006
	tagMuLaw      = 0x0007
	tagExtensible = 0xFFFE

	maxChannels = 32

	fmtMin        = 16 // bytes of a plain PCM fmt chunk
	fmtExtensible = 40 // bytes with valid bits, channel mask and sub-format
)

// extensibleTail is what follows the two-byte format tag in the sub-format GUID of every encoding that has such a tag.
var extensibleTail = []byte{0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xAA, 0, 0x38, 0x9B, 0x71}

// wavFormat is what a fmt chunk says, checked.
type wavFormat struct {
	encoding string
	rate     int // Hz
	channels int
	width    int // bytes per sample of one channel
	float    bool
	decode   decodeFunc
}

// frame is the size in bytes of one sample of every channel.
func (f *wavFormat) frame() int { return f.channels * f.width }

// formatTag returns the encoding's tag from a fmt chunk of at least fmtMin bytes, looking inside WAVE_FORMAT_EXTENSIBLE.
func formatTag(body []byte) (int, error) {
	tag := int(binary.LittleEndian.Uint16(body))
	if tag != tagExtensible {
		return tag, nil
	}
	if len(body) < fmtExtensible {
		return 0, fmt.Errorf("WAV fmt chunk is extensible but only %d bytes long, want %d", len(body), fmtExtensible)
	}
	guid := body[24:40]
	if !bytes.Equal(guid[2:], extensibleTail) {
		return 0, fmt.Errorf("WAV sub-format %x is not an encoding this program knows; convert the file to 16-bit PCM", guid)
	}
	return int(binary.LittleEndian.Uint16(guid)), nil
}

// nativeTag says whether an encoding is decoded here rather than by ffmpeg.
func nativeTag(tag int) bool {
	return tag == tagPCM || tag == tagFloat || tag == tagALaw || tag == tagMuLaw
}

// parseFormat reads the first bytes of a fmt chunk. Samples are left-justified in their bytes, so valid bits below the
// container's size need no scaling of their own.
func parseFormat(body []byte) (*wavFormat, error) {
	if len(body) < fmtMin {
		return nil, fmt.Errorf("WAV fmt chunk is %d bytes long, want at least %d", len(body), fmtMin)
	}
	tag, err := formatTag(body)
	if err != nil {
		return nil, err
	}
	f := &wavFormat{
		channels: int(binary.LittleEndian.Uint16(body[2:])),
		rate:     int(binary.LittleEndian.Uint32(body[4:])),
	}
	align := int(binary.LittleEndian.Uint16(body[12:]))
	bits := int(binary.LittleEndian.Uint16(body[14:]))
	if f.channels < 1 || f.channels > maxChannels {
		return nil, fmt.Errorf("WAV header says %d channels, want 1..%d", f.channels, maxChannels)
	}
	if f.rate < minRate || f.rate > maxRate {
		return nil, fmt.Errorf("WAV header says a sample rate of %d Hz, want %d..%d Hz", f.rate, minRate, maxRate)
	}
	f.width = (bits + 7) / 8
	switch {
	case tag == tagPCM && f.width >= 1 && f.width <= 4:
		f.encoding = []string{"pcm_u8", "pcm_s16", "pcm_s24", "pcm_s32"}[f.width-1]
		f.decode = []decodeFunc{decodeU8, decodeS16, decodeS24, decodeS32}[f.width-1]
	case tag == tagFloat && bits == 32:
		f.encoding, f.decode, f.float = "pcm_f32", decodeF32, true
	case tag == tagFloat && bits == 64:
		f.encoding, f.decode, f.float = "pcm_f64", decodeF64, true
	case tag == tagALaw && bits == 8:
		f.encoding, f.decode = "pcm_alaw", decodeALaw
	case tag == tagMuLaw && bits == 8:
		f.encoding, f.decode = "pcm_mulaw", decodeMuLaw
	default:
		return nil, fmt.Errorf("WAV encoding 0x%04x with %d bits per sample is not supported; convert the file to 16-bit PCM", tag, bits)
	}
	if align != f.frame() {
		return nil, fmt.Errorf("WAV header says a block align of %d bytes, but %d channels of %d bits need %d", align, f.channels, bits, f.frame())
	}
	if len(body) >= fmtExtensible && binary.LittleEndian.Uint16(body) == tagExtensible {
		if valid := int(binary.LittleEndian.Uint16(body[18:])); valid > 8*f.width {
			return nil, fmt.Errorf("WAV header says %d valid bits in samples of %d bits", valid, 8*f.width)
		}
	}
	return f, nil
}
