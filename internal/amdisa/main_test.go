package amdisa

import (
	"flag"
	"os"
	"testing"
)

// With -v the coverage table follows the tests.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if testing.Verbose() {
		reportCoverage()
	}
	os.Exit(code)
}
