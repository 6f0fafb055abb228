package capture

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/gen2brain/malgo"
)

// realBackends reach a microphone. miniaudio's null backend, which makes silence, is not among them: left to choose,
// miniaudio falls back to it. Nor is JACK, whose library complains on standard error wherever its server does not run.
var realBackends = []malgo.Backend{
	malgo.BackendWasapi, malgo.BackendDsound, malgo.BackendWinmm, malgo.BackendCoreaudio, malgo.BackendSndio, malgo.BackendAudio4,
	malgo.BackendOss, malgo.BackendPulseaudio, malgo.BackendAlsa, malgo.BackendAaudio, malgo.BackendOpensl,
}

// nullBackend is miniaudio's number; malgo.BackendNull is another backend's.
const nullBackend = malgo.Backend(14)

// system is a sound system that answers.
type system struct {
	context *malgo.AllocatedContext
	backend malgo.Backend
}

// openSystem opens the first of the backends that answers.
func openSystem(backends []malgo.Backend) (*system, error) {
	for _, backend := range backends {
		if backend == malgo.BackendAlsa && !alsaCaptures() {
			continue // the library would complain at length on standard error
		}
		// One at a time: miniaudio does not tell which of several it has taken.
		if ctx, err := malgo.InitContext([]malgo.Backend{backend}, malgo.ContextConfig{}, nil); err == nil {
			return &system{ctx, backend}, nil
		}
	}
	return nil, errors.New("no sound system answers, or none with an input: is one running, and may this user use it?")
}

func (s *system) close() {
	_ = s.context.Uninit() // nothing can be done about it
	s.context.Free()
}

// alsaCaptures says whether the kernel has a sound card with an input.
func alsaCaptures() bool {
	if runtime.GOOS != "linux" {
		return true
	}
	list, err := os.ReadFile("/proc/asound/pcm")
	return err == nil && bytes.Contains(list, []byte("capture"))
}

// inputs lists the inputs that are more than names: ALSA also has one that makes silence, and converters.
func (s *system) inputs() ([]malgo.DeviceInfo, error) {
	devices, err := s.context.Devices(malgo.Capture)
	if err != nil {
		return nil, fmt.Errorf("asking for inputs: %w", err)
	}
	var real []malgo.DeviceInfo
	for _, d := range devices {
		if s.backend != malgo.BackendAlsa || alsaCard(string(d.ID[:])) {
			real = append(real, d)
		}
	}
	return real, nil
}

// alsaCard says whether a PCM of ALSA leads to a card or a sound server; id ends with its first zero.
func alsaCard(id string) bool {
	id, _, _ = strings.Cut(id, "\x00")
	return id == "default" || id == "pulse" || id == "pipewire" || strings.HasPrefix(id, "hw:") || strings.Contains(id, "CARD=")
}
