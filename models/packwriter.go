package models

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// packedTensor is one entry of the file to write.
type packedTensor struct {
	name  string
	dtype dtype
	shape []int
	bytes int64
}

// packWriter writes a packed file in one pass beside its destination, which appears only on commit.
type packWriter struct {
	dst    string
	file   *os.File
	meta   map[string]string
	plan   []packedTensor
	next   int    // in plan
	done   int64  // bytes of the current tensor
	crc    uint32 // of the current tensor
	sums   []byte // of the tensors before it
	header int    // bytes
}

// newPackWriter lays the file out. The source hash in meta may be filled in until commit.
func newPackWriter(dst string, meta map[string]string, tensors []packedTensor) (*packWriter, error) {
	if info, err := os.Stat(dst); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is there and is not a file", dst)
	}
	w := &packWriter{dst: dst, meta: meta}
	for _, t := range tensors {
		w.plan = append(w.plan, t)
		if gap := -t.bytes & (packedAlign - 1); gap > 0 {
			w.plan = append(w.plan, packedTensor{fmt.Sprintf("%s%d", padPrefix, len(w.plan)), typeU8, []int{int(gap)}, gap})
		}
	}
	sums := 4 * (len(w.plan) + 1)
	w.plan = append(w.plan, packedTensor{checksumsTensor, typeU8, []int{sums}, int64(sums)})
	meta[keySource] = strings.Repeat("0", hex.EncodedLen(32))
	header, err := w.encodeHeader()
	if err != nil {
		return nil, err
	}
	w.header = len(header)
	if w.file, err = os.CreateTemp(filepath.Dir(dst), ".voxtral-*.part"); err != nil {
		return nil, err
	}
	if _, err = w.file.Write(header); err != nil {
		return nil, w.abandon(err)
	}
	return w, nil
}

// encodeHeader writes length and JSON, padded so that the data begin aligned.
func (w *packWriter) encodeHeader() ([]byte, error) {
	var b strings.Builder
	meta, err := json.Marshal(w.meta)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, `{"__metadata__":%s`, meta)
	at := int64(0)
	for _, t := range w.plan {
		name, err := json.Marshal(t.name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, `,%s:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`, name, dtypeNames[t.dtype],
			strings.ReplaceAll(fmt.Sprint(t.shape), " ", ","), at, at+t.bytes)
		at += t.bytes
	}
	b.WriteByte('}')
	text := b.String() + strings.Repeat(" ", -(8+b.Len())&(packedAlign-1))
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), nil
}

// write appends to the current tensor; when that is full, the next one begins.
func (w *packWriter) write(data []byte) error {
	t := &w.plan[w.next]
	if w.done += int64(len(data)); w.done > t.bytes {
		return fmt.Errorf("tensor %s: %d bytes written, %d planned", t.name, w.done, t.bytes)
	}
	if _, err := w.file.Write(data); err != nil {
		return err
	}
	w.crc = crc32.Update(w.crc, castagnoli, data)
	if w.done < t.bytes {
		return nil
	}
	w.sums = binary.LittleEndian.AppendUint32(w.sums, w.crc)
	w.next, w.done, w.crc = w.next+1, 0, 0
	if pad := &w.plan[min(w.next, len(w.plan)-1)]; strings.HasPrefix(pad.name, padPrefix) {
		return w.write(make([]byte, pad.bytes))
	}
	return nil
}

// commit writes the header with the source's hash and the checksums, and moves the file to its place.
func (w *packWriter) commit(source string) (size int64, err error) {
	if w.next != len(w.plan)-1 {
		return 0, w.abandon(fmt.Errorf("tensor %s was not written", w.plan[w.next].name))
	}
	w.meta[keySource] = source
	header, err := w.encodeHeader()
	if err == nil && len(header) != w.header {
		err = fmt.Errorf("the header grew from %d to %d bytes", w.header, len(header))
	}
	if err != nil {
		return 0, w.abandon(err)
	}
	sums := binary.LittleEndian.AppendUint32(nil, crc32.Checksum(header, castagnoli))
	if err = w.write(append(sums, w.sums...)); err != nil {
		return 0, w.abandon(err)
	}
	if size, err = w.file.Seek(0, io.SeekCurrent); err != nil {
		return 0, w.abandon(err)
	}
	if _, err = w.file.WriteAt(header, 0); err != nil {
		return 0, w.abandon(err)
	}
	if err = w.file.Chmod(0o644); err != nil {
		return 0, w.abandon(err)
	}
	if err = w.file.Sync(); err != nil {
		return 0, w.abandon(err)
	}
	if err = os.Rename(w.file.Name(), w.dst); err != nil {
		return 0, w.abandon(err)
	}
	if err = w.file.Close(); err != nil {
		return 0, err
	}
	return size, syncDir(filepath.Dir(w.dst))
}

// syncDir makes a rename last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// abandon removes what was written and returns why.
func (w *packWriter) abandon(why error) error {
	// Both can only fail after an error that says more.
	_ = w.file.Close()
	_ = os.Remove(w.file.Name())
	return why
}
