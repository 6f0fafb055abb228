package hip

import (
	"os"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	if RunChild() {
		return
	}
	code := m.Run()
	if os.Getenv(insideVariable) != "" {
		syscall.Exit(code) // without the destructors of a real run time, which end badly under the race detector
	}
	os.Exit(code)
}

// skip leaves a test that lacks a tool; in the gate that is a failure.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("VOXTRAL_CI") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
