package hip

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	cacheMagic = "voxtral kernel 1\n"
	// CacheBytes bounds the compile cache. All kernels for one GPU take a few megabytes.
	CacheBytes = 128 << 20
	// staleAfter is when a file that was being written has been left behind.
	staleAfter = time.Hour
)

// Cache keeps compiled code in a folder, shared by all processes of a user. An entry is written in one step and checked by
// its hash when read; a damaged one is removed and made again. The oldest go when there are too many.
type Cache struct {
	Dir   string
	Limit int64 // bytes of all entries together
}

// UserCache is the user's cache; nil where the user has no folder for such.
func UserCache() *Cache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil
	}
	return &Cache{Dir: filepath.Join(dir, "voxtral", "kernels"), Limit: CacheBytes}
}

// cacheKey hashes all that a program's code depends on, each part with its length.
func cacheKey(identity string, s Source) string {
	hash := sha256.New()
	for _, part := range append([]string{cacheMagic, identity, s.Arch, s.Name, s.Text}, s.Options...) {
		_ = binary.Write(hash, binary.LittleEndian, int64(len(part))) // a hash takes everything
		hash.Write([]byte(part))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func (c *Cache) file(key string) string { return filepath.Join(c.Dir, key+".kernel") }

// An entry is the magic, the SHA-256 of the rest, the log's length as 4 bytes, the log and the code.
func (c *Cache) get(key string) (Output, bool) {
	if c == nil {
		return Output{}, false
	}
	file := c.file(key)
	info, err := os.Stat(file)
	if err != nil || info.Size() > c.Limit {
		return Output{}, false
	}
	entry, err := os.ReadFile(file)
	if err != nil {
		return Output{}, false
	}
	out, ok := parseEntry(entry)
	if !ok {
		_ = os.Remove(file) // it is made again either way
		return Output{}, false
	}
	now := time.Now()
	_ = os.Chtimes(file, now, now) // in use: not the oldest; a read-only cache serves as well
	return out, true
}

func parseEntry(entry []byte) (Output, bool) {
	sum, ok := bytes.CutPrefix(entry, []byte(cacheMagic))
	if !ok || len(sum) < sha256.Size+4 {
		return Output{}, false
	}
	body := sum[sha256.Size:]
	if sha256.Sum256(body) != [sha256.Size]byte(sum[:sha256.Size]) {
		return Output{}, false
	}
	logBytes := int64(binary.LittleEndian.Uint32(body))
	rest := body[4:]
	if logBytes > int64(len(rest)) {
		return Output{}, false
	}
	return Output{Log: string(rest[:logBytes]), Code: rest[logBytes:], Cached: true}, true
}

func (c *Cache) put(key string, out Output) error {
	if c == nil {
		return nil
	}
	body := binary.LittleEndian.AppendUint32(nil, uint32(len(out.Log)))
	body = append(append(body, out.Log...), out.Code...)
	sum := sha256.Sum256(body)
	entry := slices.Concat([]byte(cacheMagic), sum[:], body)
	if err := c.write(c.file(key), entry); err != nil {
		return fmt.Errorf("hip: compiled code is not kept: %w", err)
	}
	c.trim(c.file(key))
	return nil
}

func (c *Cache) write(file string, entry []byte) error {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(c.Dir, "writing-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(entry)
	err = cmp.Or(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // the first error tells
	}
	return err
}

// trim removes the oldest entries beyond the limit, and what interrupted writes left behind. The newest entry stays.
func (c *Cache) trim(newest string) {
	type entry struct {
		file  string
		bytes int64
		used  time.Time
	}
	var entries []entry
	var total int64
	listed, err := os.ReadDir(c.Dir)
	if err != nil {
		return
	}
	for _, e := range listed {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		file := filepath.Join(c.Dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "writing-"):
			if time.Since(info.ModTime()) > staleAfter {
				_ = os.Remove(file)
			}
		case strings.HasSuffix(e.Name(), ".kernel"):
			total += info.Size()
			if file != newest {
				entries = append(entries, entry{file, info.Size(), info.ModTime()})
			}
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.used.Compare(b.used) })
	for _, e := range entries {
		if total <= c.Limit {
			return
		}
		if os.Remove(e.file) == nil {
			total -= e.bytes
		}
	}
}
