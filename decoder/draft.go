package decoder

// A Drafter guesses the tokens that come next, so that a run of positions can be verified in one step. It never changes a
// token, only how many steps they take: every guess is checked by the model.
//
// It knows two things. Habits: what followed the same recent tokens before, and how long pad runs last. And hints: the
// rows of the step before that were rejected had heard the right audio after the wrong token, so what they said is
// often right about when the next word comes, sometimes about the word.
type Drafter struct {
	pad    int32
	word   int32   // the marker that opens a word
	cost   float64 // what one more row adds to a step, in steps
	habits map[context]*guess
	trust  [3][3][2]rate // of hints: kind of the token before, kind of the hint, whether the hint's row had that very token
	hints  []Hint
	tail   tail
}

// Hint is what a rejected row was given and what it said.
type Hint struct {
	In, Out int32
}

// tail is the end of a token sequence, as far as guessing looks back.
type tail struct {
	last, before int32 // latest two tokens
	pads         int   // length of the pad run that ends the sequence
}

// context is what a habit is keyed by: the latest two tokens, the latest one, or just "after some text".
type context struct {
	order        int8
	last, before int32
	pads         int8
}

// guess is the token seen in a context, and how often it held.
type guess struct {
	token int32
	rate
}

// rate counts how often something held. Counts halve as they grow, so that old habits fade.
type rate struct{ hits, tries float32 }

const (
	longestRun = 12  // pad runs are told apart up to this length: by then it is silence
	fade       = 64  // tries at which counts are halved
	padPrior   = 0.5 // belief in one more pad, before anything was seen
	textPrior  = 0.1 // belief in any other habit, before anything was seen
	hintPrior  = 0.5 // belief in a hint
	priorTries = 2   // weight of those beliefs
)

// NewDrafter returns a drafter. cost is what one more row adds to a step, as a fraction of a step of one row; a guess is
// worth making while the chance that it is reached and right exceeds it.
func NewDrafter(pad, word int32, cost float64) *Drafter {
	return &Drafter{pad: pad, word: word, cost: cost, habits: map[context]*guess{}}
}

// Restart forgets the end of the sequence but keeps what was learned.
func (d *Drafter) Restart() { d.tail, d.hints = tail{}, d.hints[:0] }

// Observe adds an output to the sequence and learns from it.
func (d *Drafter) Observe(token int32) {
	for _, ctx := range d.contexts(d.tail) {
		g := d.habits[ctx]
		switch {
		case g == nil:
			d.habits[ctx] = &guess{token: token, rate: rate{hits: 1, tries: 1}}
			continue
		case g.token != token && g.hits < g.tries/4: // the newcomer takes over
			*g = guess{token: token, rate: rate{hits: 1, tries: 2}}
			continue
		}
		g.count(g.token == token)
	}
	if len(d.hints) > 0 {
		d.trustIn(d.tail, d.hints[0]).count(d.hints[0].Out == token)
		d.hints = d.hints[1:]
	}
	d.tail = d.tail.push(token, d.pad)
}

// Hints replaces what is known about the coming tokens: hints[i] is about the i-th from now.
func (d *Drafter) Hints(hints []Hint) { d.hints = hints }

// Draft fills dst with guesses for the tokens after the sequence and returns how many are worth verifying.
func (d *Drafter) Draft(dst []int32) int {
	t, chance := d.tail, 1.0
	for n := range dst {
		token, p := d.next(t)
		if n < len(d.hints) {
			if q := d.trustIn(t, d.hints[n]).believe(hintPrior); q > p {
				token, p = d.hints[n].Out, q
			}
		}
		chance *= p
		if chance <= d.cost {
			return n
		}
		dst[n] = token
		t = t.push(token, d.pad)
	}
	return len(dst)
}

// next is the habit of the most trusted context of a tail, and its chance.
func (d *Drafter) next(t tail) (token int32, chance float64) {
	token = d.pad
	for _, ctx := range d.contexts(t) {
		if g := d.habits[ctx]; g != nil {
			if p := g.believe(d.prior(g.token)); p > chance {
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
	return textPrior
}

// trustIn is the record of hints like h after a tail like t.
func (d *Drafter) trustIn(t tail, h Hint) *rate {
	same := 0
	if h.In == t.last {
		same = 1
	}
	return &d.trust[d.kind(t.last)][d.kind(h.Out)][same]
}

func (d *Drafter) kind(token int32) int {
	switch token {
	case d.pad:
		return 0
	case d.word:
		return 1
	}
	return 2
}

func (r *rate) count(held bool) {
	r.tries++
	if held {
		r.hits++
	}
	if r.tries >= fade {
		r.hits, r.tries = r.hits/2, r.tries/2
	}
}

func (r *rate) believe(prior float64) float64 {
	return (float64(r.hits) + priorTries*prior) / (float64(r.tries) + priorTries)
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
