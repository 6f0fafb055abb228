package models

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"voxtral/internal/device"
)

// A packed model is one safetensors file, in the order it is written:
//
//   - metadata under the keys below;
//   - every tensor under its canonical name, q and k rows interleaved. Vectors are F32. Plain matrices are [out, in] or,
//     for a convolution, [out, in, 3]. Grouped matrices are two tensors: NAME, the codes (I8 for int8, U8 for int4)
//     [out, row bytes], and NAME.scales, F16 [out, groups];
//   - tekken.json, its bytes;
//   - checksums, little-endian CRC-32C values: of the header (length and JSON), then of each tensor before it.
//
// Each tensor begins at a multiple of 64 bytes from the start of the file; ".pad.N" tensors fill the gaps, as
// safetensors allows no holes.
const (
	packedVersion = "1"
	packedAlign   = 64

	keyVersion = "voxtral.layout"
	keyName    = "voxtral.name"
	keySource  = "voxtral.source_sha256"
	keyFormat  = "voxtral.format"
	keyHead    = "voxtral.head"
	keyGroup   = "voxtral.group"
	keyConfig  = "voxtral.config"

	scalesSuffix    = ".scales"
	padPrefix       = ".pad."
	checksumsTensor = "checksums"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (m *Model) openPacked(path string) error {
	data, err := m.mapFile(path)
	if err != nil {
		return err
	}
	return m.readPacked(path, data)
}

func (m *Model) readPacked(path string, data []byte) error {
	f, err := parseSafetensors(path, data)
	if err != nil {
		return err
	}
	switch version, ours := f.meta[keyVersion]; {
	case !ours:
		return fmt.Errorf("%s is a safetensors file but no packed model: open the directory it is in, or write one with voxtral quantize", path)
	case version != packedVersion:
		return fmt.Errorf("%s: packed layout %s, this program reads %s: quantize the checkpoint again", path, clip([]byte(version)), packedVersion)
	}
	p := packedFile{container: f}
	if err := p.readChecksums(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	m.Layout, m.files, m.Name = Packed, []*container{f}, f.meta[keyName]
	if m.Meta, err = p.readMetadata(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	cfg, err := parseConfig(path+": "+keyConfig, []byte(f.meta[keyConfig]), Packed)
	if err != nil {
		return err
	}
	m.Config = *cfg
	if err := m.readPackedTekken(&p); err != nil {
		return err
	}
	return m.bindPacked(&p)
}

// packedFile is a packed container with its checksums.
type packedFile struct {
	*container
	sums map[string]uint32
}

// readChecksums also verifies the header, so that everything later is as it was written.
func (p *packedFile) readChecksums() error {
	table, ok := p.get(checksumsTensor)
	if !ok || table.dtype != typeU8 {
		return fmt.Errorf("the file is damaged: no checksums")
	}
	sums := p.bytes(table)
	if len(sums) != 4*len(p.tensors) {
		return fmt.Errorf("the file is damaged: %d bytes of checksums for %d tensors", len(sums), len(p.tensors))
	}
	if crc32.Checksum(p.header, castagnoli) != binary.LittleEndian.Uint32(sums) {
		return fmt.Errorf("the file is damaged: the header does not match its checksum")
	}
	order := make([]*rawTensor, 0, len(p.tensors))
	for i := range p.tensors {
		if &p.tensors[i] != table {
			order = append(order, &p.tensors[i])
		}
	}
	slices.SortFunc(order, func(a, b *rawTensor) int { return cmp.Compare(a.begin, b.begin) })
	p.sums = make(map[string]uint32, len(order))
	for i, t := range order {
		p.sums[t.name] = binary.LittleEndian.Uint32(sums[4*(i+1):])
	}
	return nil
}

func (p *packedFile) verify(t *rawTensor) error {
	if crc32.Checksum(p.bytes(t), castagnoli) != p.sums[t.name] {
		return fmt.Errorf("the file is damaged: tensor %s does not match its checksum", t.name)
	}
	return nil
}

func (p *packedFile) readMetadata() (Metadata, error) {
	meta := Metadata{Source: p.meta[keySource]}
	var err error
	if meta.Format, err = device.ParseFormat(p.meta[keyFormat]); err != nil {
		return meta, fmt.Errorf("%s: %w", keyFormat, err)
	}
	if meta.Head, err = device.ParseFormat(p.meta[keyHead]); err != nil {
		return meta, fmt.Errorf("%s: %w", keyHead, err)
	}
	if meta.Group, err = strconv.Atoi(p.meta[keyGroup]); err != nil || meta.Group != 0 && !device.ValidGroup(meta.Group) {
		return meta, fmt.Errorf("%s is %s, want 0, 32, 64 or 128", keyGroup, clip([]byte(p.meta[keyGroup])))
	}
	return meta, nil
}

func (m *Model) readPackedTekken(p *packedFile) error {
	t, ok := p.get(tekkenFile)
	if !ok {
		return fmt.Errorf("%s: tensor %s is missing", p.name, tekkenFile)
	}
	if err := p.verify(t); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	m.tekken = p.bytes(t)
	var err error
	if m.Tokenizer, _, err = parseTekken(p.name+": "+tekkenFile, m.tekken); err != nil {
		return err
	}
	return m.checkVocab(p.name + ": " + tekkenFile)
}

// bindPacked finds every tensor of the model, checks it, and leaves nothing over.
func (m *Model) bindPacked(p *packedFile) error {
	m.tensors = map[string]*stored{}
	known := map[string]bool{tekkenFile: true, checksumsTensor: true}
	for s := range specs(&m.Config) {
		t, ok := p.get(s.name)
		if !ok {
			return fmt.Errorf("%s: tensor %s is missing", p.name, s.name)
		}
		known[s.name] = true
		part := device.Part{Name: s.name, Rows: s.shape[0], Cols: 1, Data: p.bytes(t)}
		for _, d := range s.shape[1:] {
			part.Cols *= d
		}
		check := func() error { return p.verify(t) }
		if format, plain := t.floatFormat(); plain {
			if !slices.Equal(t.shape(), s.shape) {
				return fmt.Errorf("%s: tensor %s is %s, the configuration wants %s", p.name, s.name, dims(t.shape()), dims(s.shape))
			}
			part.Format = format
		} else {
			scales, ok := p.get(s.name + scalesSuffix)
			if !ok || len(s.shape) != 2 || scales.dtype != typeF16 || t.dtype != typeI8 && t.dtype != typeU8 {
				return fmt.Errorf("%s: tensor %s of type %s and shape %s is not in a packed format, or lacks its scales", p.name, s.name, dtypeNames[t.dtype], dims(t.shape()))
			}
			known[scales.name] = true
			part.Format, part.Scales = device.Int4, p.bytes(scales)
			if t.dtype == typeI8 {
				part.Format = device.Int8
			}
			part.Group = groupOf(part.Format, t, scales)
			check = func() error { return cmp.Or(p.verify(t), p.verify(scales)) }
		}
		if err := part.Validate(); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		m.tensors[s.name] = &stored{part, s.shape, check}
		m.order = append(m.order, s.name)
	}
	for i := range p.tensors {
		if name := p.tensors[i].name; !known[name] && !strings.HasPrefix(name, padPrefix) {
			return fmt.Errorf("%s: tensor %s is not part of the model", p.name, clip([]byte(name)))
		}
	}
	return nil
}

// groupOf is how many elements share a scale, 0 if the shapes do not tell.
func groupOf(f device.Format, codes, scales *rawTensor) int {
	if codes.rank != 2 || scales.rank != 2 || codes.dims[0] != scales.dims[0] || scales.dims[1] == 0 {
		return 0
	}
	group := codes.dims[1] / scales.dims[1]
	if f == device.Int4 {
		group *= 2
	}
	return int(group)
}
