package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table aligns columns that tabs divide.
type table struct{ rows strings.Builder }

func (t *table) row(format string, args ...any) { fmt.Fprintf(&t.rows, format+"\n", args...) }

func (t *table) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(w, t.rows.String()); err != nil {
		return err
	}
	return w.Flush()
}
