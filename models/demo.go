package models

import _ "embed"

//go:embed demo/demo.voxtral
var demo []byte

// Demo opens the built-in model; see demo/README.md for what it is good for. It needs no file and no Close.
func Demo() (*Model, error) { return OpenBytes("demo", demo) }
