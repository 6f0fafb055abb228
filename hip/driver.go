// Package hip runs programs on GPUs: AMD's through HIP, NVIDIA's through the CUDA driver, from the same kernel sources.
// No GPU library is linked or included: a Driver finds them at run time, says why when it cannot, and kernels are compiled
// for the GPU at hand by its own run-time compiler, in a child process.
//
// The lower half, which knows nothing of models:
//
//	driver.go    Driver, Context and what they hand out
//	errors.go    what can go wrong, as types
//	library.go   opening libraries; gpu.h, symbols.h and load.c hold the table
//	native.go    Driver over a loaded library
//	amd.go       where AMD's libraries are, what makes an AMD GPU unusable
//	nvidia.go    the same for NVIDIA
//	host.go      what the operating system knows about GPUs
//	context.go   Context over a loaded library; context.c holds the calls
//	compiler.go  the run-time compilers; rtc.c holds the calls
//	child.go     running what may end the process in a process of its own
//	cache.go     compiled code on disk
//	report.go    everything there is to say about this machine's GPUs, found out in a child process
package hip

import "time"

// Driver is one way to reach GPUs: HIP, CUDA or, in tests, an emulator.
type Driver interface {
	// Name is "hip", "cuda" or the emulator's own.
	Name() string
	// Versions lists the libraries in use. The last one is the run-time compiler, if there is one.
	Versions() []LibraryVersion
	// Devices lists what is there, usable or not. The error is a *Problem when nothing can be reached at all.
	Devices() ([]GPU, error)
	// Open starts using a GPU by its index in Devices; an unusable one is refused with its Problem. Several contexts of one
	// GPU share its memory and have a stream each.
	Open(index int) (Context, error)
}

// LibraryVersion is a library that has been loaded.
type LibraryVersion struct {
	Name    string   // "HIP", "hiprtc", "CUDA driver", "NVRTC"
	Version string   // as the library says
	Path    string   // the file
	Missing []string // optional functions that it lacks
}

// GPU describes one device.
type GPU struct {
	Index          int
	Name           string
	Arch           string // as its compiler takes it: gfx942:sramecc+:xnack-, sm_90
	WaveSize       int    // threads that run in step: 32 or 64
	Units          int    // compute units or streaming multiprocessors
	ThreadsPerUnit int    // resident at once, 0 if unknown
	MemoryBytes    int64
	LDSBytes       int64 // shared memory that one block may have
	L2Bytes        int64
	Integrated     bool // shares the host's memory

	Usable bool
	Reason string // why it is not usable
	Fix    string // what to do about that
}

// Ptr is an address that kernels on the device can use: device memory, or pinned host memory. Arithmetic on it is allowed.
type Ptr uint64

// Pinned is host memory that the device reads and writes in place.
type Pinned struct {
	Bytes []byte // the host's view; zero at first; invalid after HostFree
	Ptr   Ptr    // the device's view
}

// Context is one stream of work on one GPU. Calls may come from any goroutine, one at a time, except that a capture begins
// and ends on one OS thread (runtime.LockOSThread). Compile may run beside anything, itself included.
//
// Memory, modules, graphs and events belong to the context that made them; Close frees the memory and the modules that are
// left, not graphs and events. An error of the GPU itself, such as an invalid access in a kernel, comes out of a later call,
// and of every call from then on.
type Context interface {
	GPU() GPU

	// Malloc returns uninitialised device memory, aligned to 256 bytes. Errors: *OutOfMemory.
	Malloc(bytes int64) (Ptr, error)
	// Free waits until the device no longer uses the memory.
	Free(p Ptr) error
	// MemInfo is the device's memory, counted over all processes.
	MemInfo() (free, total int64, err error)
	// HostAlloc returns pinned host memory, for what goes back and forth in every step.
	HostAlloc(bytes int) (*Pinned, error)
	HostFree(p *Pinned) error

	// CopyIn and CopyOut queue behind earlier work and return when the bytes have arrived. Not within a capture.
	CopyIn(dst Ptr, src []byte) error
	CopyOut(dst []byte, src Ptr) error
	// Copy queues a copy between any two of device and pinned memory.
	Copy(dst, src Ptr, bytes int64) error
	// Memset queues a fill.
	Memset(dst Ptr, v byte, bytes int64) error

	// Compile turns kernel source into machine code for this GPU, or takes it from the cache. The log holds the compiler's
	// warnings. Errors: *CompileError.
	Compile(name, source string, options []string) (code []byte, log string, err error)
	// Load makes machine code ready to run.
	Load(code []byte) (Module, error)
	// Launch queues a kernel. grid counts blocks, block counts threads, sharedBytes is dynamic shared memory. args is the
	// kernel's parameters in order, each at its natural alignment, little-endian; it may be reused after the call.
	Launch(f Function, grid, block [3]int, sharedBytes int, args []byte) error
	// LaunchTogether queues a kernel whose blocks all run at once, so that they may wait for each other. args is its one
	// parameter, a structure. Errors: ErrNotTogether where the library cannot, or the library's own if the grid does not fit.
	LaunchTogether(f Function, grid, block [3]int, sharedBytes int, args []byte) error

	// BeginCapture makes the calls that only queue record instead of run, until EndCapture. Errors: ErrNoGraphs.
	BeginCapture() error
	// EndCapture returns what was recorded. After an error nothing is being captured and work can be queued as before.
	EndCapture() (Graph, error)

	NewEvent() (Event, error)
	// Sync waits for all queued work.
	Sync() error
	Close() error
}

// Module is loaded machine code.
type Module interface {
	// Function finds a kernel by its extern "C" name.
	Function(name string) (Function, error)
	// Unload ends the life of its functions too.
	Unload() error
}

// Function is one kernel. Its methods describe it for tuning and reports.
type Function interface {
	Name() string
	Resources() Resources
	// BlocksPerUnit is how many blocks a compute unit holds at once; 0 where the driver cannot tell.
	BlocksPerUnit(threads, sharedBytes int) (int, error)
}

// Resources is what a kernel takes.
type Resources struct {
	MaxThreads   int // per block
	Registers    int // vector registers per thread
	SharedBytes  int // static shared memory per block
	ScratchBytes int // per thread; above 0 something was spilled or indexed in memory
}

// Graph is a recorded sequence of work.
type Graph interface {
	// Launch queues the whole sequence.
	Launch() error
	Nodes() int
	Close() error
}

// Event is a mark in the stream.
type Event interface {
	Record() error
	// Since waits for this mark and returns the device's time between start and it.
	Since(start Event) (time.Duration, error)
	Close() error
}
