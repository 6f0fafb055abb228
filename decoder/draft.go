package decoder

// A Drafter guesses the tokens that come next, so that a run of positions can be verified in one step. It never changes a
// token, only how many steps they take: every guess is checked by the model.
//
// It knows two things. Habits: what followed the same recent tokens before, and how long pad runs last. And hints: rows
// that were rejected had heard the right audio after the wrong token, so what they said is often right about when the next
// word comes, sometimes about the word, the more so if the tokens before it come true after all.
type Drafter struct {
	pad    int32
	word   int32 // the marker that opens a word
	habits map[context]*guess
	trust  map[bearing]*rate
	hints  [][]Hint // by how many tokens ahead, the latest first
	tail   tail
}

// Hint is what a rejected row was given after which token, and what it said.
type Hint struct {
	Before, In, Out int32
}

// bearing is what the trust in a hint depends on.
type bearing struct {
	last, out int8 // kinds of the token before and of the hint
	match     int8 // how many of the two tokens before are those that the hint's row had
	age       int8 // 1 if there is a later hint
	agrees    bool // with habit
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
	hintsKept  = 3   // of a position
	priorTries = 2   // weight of those beliefs
)

// NewDrafter returns a drafter.
func NewDrafter(pad, word int32) *Drafter {
	return &Drafter{pad: pad, word: word, habits: map[context]*guess{}, trust: map[bearing]*rate{}}
}

// Restart forgets the end of the sequence but keeps what was learned.
func (d *Drafter) Restart() { d.tail, d.hints = tail{}, nil }

// Observe adds an output to the sequence and learns from it.
func (d *Drafter) Observe(token int32) {
	if len(d.hints) > 0 {
		habit, _ := d.next(d.tail)
		for age, h := range d.hints[0] {
			b := d.bearing(d.tail, h, age, habit)
			if d.trust[b] == nil {
				d.trust[b] = &rate{}
			}
			d.trust[b].count(h.Out == token)
		}
		d.hints = d.hints[1:]
	}
	for _, ctx := range d.contexts(d.tail) {
		g := d.habits[ctx]
		switch {
		case g == nil:
			d.habits[ctx] = &guess{token: token, rate: rate{hits: 1, tries: 1}}
			continue
		case g.token != token && g.hits < g.tries/4: // the newcomer takes over
			*g = guess{token: token, rate: rate{hits: 1, tries: min(g.tries+1, 12)}}
			continue
		}
		g.count(g.token == token)
	}
	d.tail = d.tail.push(token, d.pad)
}

// Hints adds to what is known about the coming tokens: hints[i] is about the i-th from now.
func (d *Drafter) Hints(hints []Hint) {
	for i, h := range hints {
		if i == len(d.hints) {
			d.hints = append(d.hints, nil)
		}
		old := d.hints[i]
		d.hints[i] = append([]Hint{h}, old[:min(len(old), hintsKept-1)]...)
	}
}

// Draft fills dst with guesses for the tokens after the sequence, and chance, which is as long, with how likely each is to be
// reached and right.
func (d *Drafter) Draft(dst []int32, chance []float64) {
	t, all := d.tail, 1.0
	for n := range dst {
		habit, p := d.next(t)
		token := habit
		if n < len(d.hints) {
			for age, h := range d.hints[n] {
				q := hintPrior
				if r := d.trust[d.bearing(t, h, age, habit)]; r != nil {
					q = r.believe(hintPrior)
				}
				if q > p {
					token, p = h.Out, q
				}
			}
		}
		all *= p
		dst[n], chance[n] = token, all
		t = t.push(token, d.pad)
	}
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

func (d *Drafter) bearing(t tail, h Hint, age int, habit int32) bearing {
	b := bearing{last: d.kind(t.last), out: d.kind(h.Out), age: int8(min(age, 1)), agrees: h.Out == habit}
	if h.In == t.last {
		b.match++
		if h.Before == t.before {
			b.match++
		}
	}
	return b
}

func (d *Drafter) kind(token int32) int8 {
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
