// Package device is the seam between the model and the hardware that runs it.
//
// The model is written once, as a Program: a plain list of about ten fused, model-sized ops over named tensors. A Device
// compiles a Program once and replays it every tick; whatever changes from tick to tick travels in the Step. The Go
// interpreter in internal/device/interp is the oracle that every device is held to.
package device

import "time"

// Device is one piece of hardware. Its methods are safe for concurrent use; an Exec belongs to one goroutine at a time.
type Device interface {
	Info() Info
	// Alloc returns zeroed memory.
	Alloc(bytes int, kind Kind) (Buffer, error)
	// Write and Read copy between host memory and a buffer at a byte offset.
	Write(dst Buffer, off int, src []byte) error
	Read(src Buffer, off int, dst []byte) error
	// Pack makes a weight ready for use. The device may keep referring to the parts' memory, which must stay valid and
	// unchanged until Close.
	Pack(d WeightDesc) (Weight, error)
	// Compile checks the program and prepares it, with scratch memory of its own.
	Compile(p *Program) (Exec, error)
	Close() error
}

// Info describes a device for people and reports.
type Info struct {
	Name    string // as given to --device
	Detail  string // hardware, instruction sets, driver
	Threads int    // host threads used, 0 if none
}

// Kind says what a buffer is for, so that a device can place it.
type Kind uint8

// Kinds of buffers.
const (
	Params  Kind = iota // small constant vectors: norms, biases
	State               // lives as long as a stream: KV rings, convolution tails
	Scratch             // meaningful only within one Run
	HostIO              // written or read by the host every tick
)

// Buffer is memory on a device.
type Buffer interface {
	Bytes() int
	// Free returns the memory; using the buffer afterwards, or in an Exec, is an error of the caller.
	Free()
}

// Weight is a packed matrix on a device.
type Weight interface {
	Rows() int // output features
	Cols() int // input features
}

// Exec is a compiled program bound to its buffers.
type Exec interface {
	// Run executes all ops in order. Host inputs must have been written before; outputs may be read after.
	Run(s *Step) error
	Close() error
}

// Step is everything that changes from one Run to the next, one entry per RowSet of the program.
type Step struct {
	Rows []RowData
	// Trace, when set, is called after every op with the op's label and its output [rows, cols]; it makes Run slow.
	// The slice is only valid during the call.
	Trace func(label string, rows, cols int, out []float32)
	// Profile, when set, has one entry per op of the program, to which the op's time is added. It makes Run a little slower:
	// ops that a device would fuse or overlap run one by one.
	Profile []time.Duration
}

// RowData gives each row of a RowSet its place in a stream.
type RowData struct {
	Slot  []int32   // [rows] stream slot; −1: the row is inactive, its outputs are undefined, no state is touched
	Pos   []int32   // [rows] position in the stream, from 0; rows of one slot are consecutive and ascending
	Token []int32   // [rows] token id, only where the program embeds tokens
	Cos   []float32 // [rows, RotaryDim/2], only where RotaryDim > 0
	Sin   []float32 // [rows, RotaryDim/2]
}
