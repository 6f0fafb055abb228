package amdisa

import (
	"fmt"
	"runtime"
	"sort"
	"sync"
	"unsafe"
)

const (
	sharedBase  = uint64(0x0001_0000_0000_0000) // flat addresses of LDS
	privateBase = uint64(0x0002_0000_0000_0000) // flat addresses of scratch
	scratchBase = uint64(0x0000_5c7a_7c40_0000) // base of the private segment's buffer descriptor
	globalBase  = uint64(0x0000_7f00_0000_0000)
	redZone     = 1 << 16 // unmapped bytes between allocations

	maxLDS     = 160 << 10
	maxScratch = 1 << 20 // per lane
	maxKernarg = 1 << 16
)

// Machine is a GPU's memory and how it runs kernels. Set the options before the first Launch.
type Machine struct {
	// MaxInstructions ends a launch when one wave executes more (a runaway loop).
	MaxInstructions uint64
	// Workers is the number of goroutines that run the workgroups of a Launch, each one workgroup after the other.
	Workers int
	// CheckRegisters faults on reading a vector or scalar register that nothing has written. Off by default: compilers read
	// undefined registers where the value does not matter.
	CheckRegisters bool
	// CheckRaces faults when two waves of a workgroup touch the same byte of LDS, one of them writing and not both by
	// atomics, with no barrier in between.
	CheckRaces bool
	// LooseBarriers accepts what AMD hardware does and HIP does not promise: waves that meet at different barriers, with
	// lanes switched off, or while other waves have ended.
	LooseBarriers bool

	mu     sync.Mutex
	blocks []*block // by address; replaced, never changed in place, so a launch keeps its own
	next   uint64
}

// block is one allocation.
type block struct {
	base, size uint64
	data       []byte // 8-byte aligned
	name       string
}

// NewMachine returns a machine without memory.
func NewMachine() *Machine {
	return &Machine{MaxInstructions: 1 << 27, Workers: runtime.GOMAXPROCS(0), next: globalBase}
}

// Alloc reserves zeroed memory and returns its address; name appears in faults. A negative size is 0.
func (m *Machine) Alloc(name string, bytes int) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alloc(name, max(bytes, 0)).base
}

func (m *Machine) alloc(name string, bytes int) *block {
	words := make([]uint64, (bytes+7)/8)
	b := &block{base: m.next, size: uint64(bytes), name: name}
	if bytes > 0 {
		b.data = unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), bytes)
	}
	m.next = (m.next + uint64(bytes) + redZone + 4095) &^ 4095
	m.blocks = append(m.blocks[:len(m.blocks):len(m.blocks)], b)
	return b
}

// Free releases an allocation; an address that Alloc did not return is ignored.
func (m *Machine) Free(addr uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, b := range m.blocks {
		if b.base == addr {
			kept := append([]*block(nil), m.blocks[:i]...)
			m.blocks = append(kept, m.blocks[i+1:]...)
			return
		}
	}
}

// find returns the block that holds n bytes at addr, or an error that says what lies there.
func find(blocks []*block, addr uint64, n int) (*block, error) {
	i := sort.Search(len(blocks), func(i int) bool { return blocks[i].base > addr }) - 1
	if i < 0 {
		return nil, fmt.Errorf("memory fault: %d bytes at %#x", n, addr)
	}
	b := blocks[i]
	if off := addr - b.base; off > b.size || uint64(n) > b.size-off {
		return nil, fmt.Errorf("memory fault: %d bytes at %#x, offset %d of %q (%d bytes)", n, addr, off, b.name, b.size)
	}
	return b, nil
}

func (m *Machine) bytes(addr uint64, n int) ([]byte, error) {
	m.mu.Lock()
	blocks := m.blocks
	m.mu.Unlock()
	b, err := find(blocks, addr, n)
	if err != nil {
		return nil, fmt.Errorf("amdisa: %w", err)
	}
	return b.data[addr-b.base:][:n], nil
}

// View is n bytes of memory in place, as a host sees memory that it shares with the device.
func (m *Machine) View(addr uint64, n int) ([]byte, error) { return m.bytes(addr, n) }

// Write copies src to addr.
func (m *Machine) Write(addr uint64, src []byte) error {
	b, err := m.bytes(addr, len(src))
	copy(b, src)
	return err
}

// Read copies memory at addr to dst.
func (m *Machine) Read(addr uint64, dst []byte) error {
	b, err := m.bytes(addr, len(dst))
	copy(dst, b)
	return err
}
