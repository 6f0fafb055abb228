package decoder

// A Drafter guesses the tokens that come next, so that a run of positions can be verified in one step. It never changes a
// token, only how many steps they take: every guess is checked by the model. Most outputs are pads, so the length of the
// current pad run carries most of what can be known without the audio; the rest is pairs and triples of recent tokens.
type Drafter struct {
	pad   int32
	word  int32   // the marker that opens a word
	cost  float64 // what one more row adds to a step, in steps
	table map[context]*guess
	tail  tail
}

// tail is the end of a token sequence, as far as guessing looks back.
type tail struct {
	last, before int32 // latest two tokens
	pads         int   // length of the pad run that ends the sequence
}

// context is what a guess is keyed by: the latest two tokens, the latest one, or just "after some text".
type context struct {
	order        int8
	last, before int32
	pads         int8
}

// guess is the token seen in a context, and how often it held. The counts halve as they grow, so that old habits fade.
type guess struct {
	token       int32
	hits, tries float32
}

const (
	longestRun = 12  // pad runs are told apart up to this length: by then it is silence
	fade       = 64  // tries at which counts are halved
	padPrior   = 0.5 // belief in one more pad, before anything was seen
	otherPrior = 0.1 // belief in any other guess, before anything was seen
	priorTries = 2   // weight of those beliefs
)

// NewDrafter returns a drafter. cost is what one more row adds to a step, as a fraction of a step of one row; a guess is
// worth making while the chance that it is reached and right exceeds it.
func NewDrafter(pad, word int32, cost float64) *Drafter {
	return &Drafter{pad: pad, word: word, cost: cost, table: map[context]*guess{}}
}

// Restart forgets the end of the sequence but keeps what was learned.
func (d *Drafter) Restart() { d.tail = tail{} }

// Observe adds an output to the sequence and learns from it.
func (d *Drafter) Observe(token int32) {
	for _, ctx := range d.contexts(d.tail) {
		g := d.table[ctx]
		if g == nil {
			d.table[ctx] = &guess{token: token, hits: 1, tries: 1}
			continue
		}
		g.tries++
		switch {
		case g.token == token:
			g.hits++
		case g.hits < g.tries/4: // the newcomer takes over
			*g = guess{token: token, hits: 1, tries: 2}
		}
		if g.tries >= fade {
			g.hits, g.tries = g.hits/2, g.tries/2
		}
	}
	d.tail = d.tail.push(token, d.pad)
}

// Draft fills dst with guesses for the tokens after the sequence and returns how many are worth verifying.
func (d *Drafter) Draft(dst []int32) int {
	t, chance := d.tail, 1.0
	for n := range dst {
		token, p := d.next(t)
		chance *= p
		if chance <= d.cost {
			return n
		}
		dst[n] = token
		t = t.push(token, d.pad)
	}
	return len(dst)
}

// next is the guess of the most trusted context of a tail, and its chance.
func (d *Drafter) next(t tail) (token int32, chance float64) {
	token = d.pad
	for _, ctx := range d.contexts(t) {
		if g := d.table[ctx]; g != nil {
			if p := believe(g, d.prior(g.token)); p > chance {
				token, chance = g.token, p
			}
		}
	}
	if chance == 0 {
		chance = d.prior(token)
	}
	return token, chance
}

func (d *Drafter) prior(token int32) float64 {
	if token == d.pad {
		return padPrior
	}
	return otherPrior
}

func believe(g *guess, prior float64) float64 {
	return (float64(g.hits) + priorTries*prior) / (float64(g.tries) + priorTries)
}

func (t tail) push(token, pad int32) tail {
	if token == pad {
		return tail{last: token, before: t.last, pads: min(t.pads+1, longestRun)}
	}
	return tail{last: token, before: t.last}
}

// contexts lists the keys of a tail.
func (d *Drafter) contexts(t tail) []context {
	switch t.last {
	case d.pad:
		return []context{{order: 1, last: t.last, pads: int8(t.pads)}}
	case d.word:
		return []context{{order: 2, last: t.last, before: t.before}, {order: 1, last: t.last}}
	}
	return []context{{order: 2, last: t.last, before: t.before}, {order: 1, last: t.last}, {order: 0}}
}
