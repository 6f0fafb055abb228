package hip

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// host is what the operating system knows about GPUs. Tests give it another root.
type host struct {
	root   string
	getenv func(string) string
	access func(path string) error // may this process read and write it?
}

func thisHost() host {
	return host{root: "/", getenv: os.Getenv, access: func(path string) error { return unix.Access(path, unix.R_OK|unix.W_OK) }}
}

func (h host) glob(pattern string) []string {
	files, _ := filepath.Glob(filepath.Join(h.root, pattern)) // its only error is a bad pattern
	return files
}

// read is a small file's text without surrounding blanks; empty where there is none.
func (h host) read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// display says whether the PCI bus has a display or compute device of a vendor, and whether the bus can be seen at all.
func (h host) display(vendor string) (found, known bool) {
	for _, folder := range h.glob("sys/bus/pci/devices/*") {
		known = true
		class := h.read(filepath.Join(folder, "class"))
		accelerator := strings.HasPrefix(class, "0x03") || strings.HasPrefix(class, "0x12")
		if accelerator && h.read(filepath.Join(folder, "vendor")) == vendor {
			return true, true
		}
	}
	return false, known
}

// denied explains why a device file cannot be used, nil if it can. The file's group is the one to join.
func (h host) denied(path string) *Problem {
	err := h.access(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	group := "render"
	if info, statErr := os.Stat(path); statErr == nil {
		if sys, ok := info.Sys().(*syscall.Stat_t); ok && sys.Gid != 0 {
			group = strconv.Itoa(int(sys.Gid))
			if g, lookErr := user.LookupGroupId(group); lookErr == nil {
				group = g.Name
			}
		}
	}
	shown := "/" + strings.TrimPrefix(strings.TrimPrefix(path, h.root), "/")
	return &Problem{
		Reason: fmt.Sprintf("no permission for %s", shown),
		Fix:    fmt.Sprintf("join the group that owns it (sudo usermod -aG %s $USER) and log in again; in a container, --group-add %s", group, group),
		Err:    err,
	}
}
