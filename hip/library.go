package hip

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"fmt"
	"path/filepath"
	"strings"
	"unsafe"
)

// library is a loaded shared library whose table has been filled. It stays loaded until close.
type library struct {
	handle  unsafe.Pointer
	path    string
	missing []string // optional symbols
}

// candidates are the files to try: each name in the loader's own search path first, then in each folder.
func candidates(names, folders []string) []string {
	files := append([]string(nil), names...)
	for _, folder := range folders {
		for _, name := range names {
			files = append(files, filepath.Join(folder, name))
		}
	}
	return files
}

// openLibrary opens the first file that has all required symbols and fills api, a C table, from it.
func openLibrary(name string, which C.enum_gpu_library, files []string, api unsafe.Pointer) (*library, error) {
	failed := &LoadError{Library: name}
	for _, file := range files {
		lib, err := openFile(which, file, api)
		if err == nil {
			return lib, nil
		}
		failed.Tried = append(failed.Tried, Attempt{file, err.Error()})
	}
	return nil, failed
}

func openFile(which C.enum_gpu_library, file string, api unsafe.Pointer) (*library, error) {
	name := C.CString(file)
	defer C.free(unsafe.Pointer(name))
	var reason, path [C.GPU_TEXT]C.char
	handle := C.gpu_library_open(name, &reason[0], &path[0])
	if handle == nil {
		return nil, fmt.Errorf("%s", C.GoString(&reason[0]))
	}
	lib := &library{handle: handle, path: C.GoString(&path[0])}
	if real, err := filepath.EvalSymlinks(lib.path); err == nil {
		lib.path = real
	}
	rows := symbols(which)
	found := make([]C.uchar, len(rows))
	C.gpu_resolve(handle, which, api, &found[0])
	var lacking []string
	for i, row := range rows {
		switch {
		case found[i] != 0:
		case row.required != 0:
			lacking = append(lacking, C.GoString(row.name))
		default:
			lib.missing = append(lib.missing, C.GoString(row.name))
		}
	}
	if len(lacking) > 0 {
		lib.close()
		return nil, fmt.Errorf("%s lacks %s", lib.path, strings.Join(lacking, ", "))
	}
	return lib, nil
}

func (l *library) close() { C.gpu_library_close(l.handle) }

func symbols(which C.enum_gpu_library) []C.struct_gpu_symbol {
	var count C.int
	return unsafe.Slice(C.gpu_symbols(which, &count), count)
}

// symbolAt names the function of a table's field.
func symbolAt(which C.enum_gpu_library, offset C.size_t) string {
	for _, row := range symbols(which) {
		if row.offset == offset {
			return C.GoString(row.name)
		}
	}
	return "?"
}
