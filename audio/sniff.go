package audio

import (
	"bufio"
	"bytes"
	"encoding/binary"
)

// sniffLen is how many bytes sniff looks at: two packets' starts of an MPEG transport stream.
const sniffLen = 189

// magics are the fixed first bytes of containers that ffmpeg reads.
var magics = []struct {
	at         int
	bytes      string
	name, form string
}{
	{0, "fLaC", "flac", ""},
	{0, "OggS", "ogg", ""},
	{0, "\x1a\x45\xdf\xa3", "webm/matroska", ""},
	{4, "ftyp", "mp4", ""},
	{4, "moov", "mp4", ""},
	{4, "mdat", "mp4", ""},
	{4, "wide", "mp4", ""},
	{0, "ID3", "mp3", ""},
	{0, "#!AMR", "amr", ""},
	{0, ".snd", "au", ""},
	{0, "FORM", "aiff", "AIFF"},
	{0, "FORM", "aiff", "AIFC"},
	{0, "caff", "caf", ""},
	{0, "wvpk", "wavpack", ""},
	{0, "MAC ", "ape", ""},
	{0, "TTA1", "tta", ""},
	{0, "MPCK", "musepack", ""},
	{0, "MP+", "musepack", ""},
	{0, "\x30\x26\xb2\x75\x8e\x66\xcf\x11", "asf", ""},
	{0, "riff\x2e\x91\xcf\x11", "w64", ""},
	{0, "RIFX", "rifx", "WAVE"},
	{0, "RIFF", "avi", "AVI "},
	{0, "ADIF", "aac", ""},
	{0, "\x00\x00\x01\xba", "mpeg", ""},
	{0, "FLV\x01", "flv", ""},
	{0, "\x0b\x77", "ac3", ""},
	{0, "\x7f\xfe\x80\x01", "dts", ""},
	{0, "NIST_1A", "sphere", ""},
	{0, "Creative Voice File", "voc", ""},
	{0, "RIFF", "wav", "WAVE"},
	{0, "RF64", "rf64", "WAVE"},
	{0, "BW64", "rf64", "WAVE"},
}

// sniff names the container that begins with b, or returns "" when b begins none. A form stands at byte 8.
func sniff(b []byte) string {
	for _, m := range magics {
		if len(b) > m.at && bytes.HasPrefix(b[m.at:], []byte(m.bytes)) &&
			(m.form == "" || len(b) >= 12 && string(b[8:12]) == m.form) {
			return m.name
		}
	}
	switch {
	case len(b) >= sniffLen && b[0] == 0x47 && b[sniffLen-1] == 0x47:
		return "mpegts"
	case len(b) < 4 || b[0] != 0xFF:
		return ""
	case b[1]&0xF6 == 0xF0:
		return "aac" // ADTS: sync word and layer 0
	case b[1]&0xE0 == 0xE0 && b[1]&0x18 != 0x08 && b[1]&0x06 != 0 && b[2]>>4 != 15 && b[2]>>2&3 != 3:
		return "mp3" // MPEG audio frame header with no reserved value
	}
	return ""
}

// foreignWAV says whether the WAV at the start of r holds an encoding, such as ADPCM or GSM, that is left to ffmpeg. It
// looks no further than r's buffer reaches and leaves every defect for the reader to report.
func foreignWAV(r *bufio.Reader) bool {
	for at := 12; at+8+fmtExtensible <= r.Size(); {
		head, err := r.Peek(at + 8)
		if err != nil {
			return false
		}
		id, size := string(head[at:at+4]), binary.LittleEndian.Uint32(head[at+4:])
		switch {
		case id == "data" || size > uint32(r.Size()):
			return false
		case id == "fmt " && size >= fmtMin:
			body, err := r.Peek(at + 8 + int(min(size, fmtExtensible)))
			if err != nil {
				return false
			}
			tag, err := formatTag(body[at+8:])
			return err == nil && !nativeTag(tag)
		}
		at += 8 + int(size+size%2)
	}
	return false
}
