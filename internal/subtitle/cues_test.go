package subtitle

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

// spoken gives each word of a text 300 ms without pauses; "|" is a silence of one second.
func spoken(text string) []Word {
	var words []Word
	var at time.Duration
	for _, f := range strings.Fields(text) {
		if f == "|" {
			at += time.Second
			continue
		}
		words = append(words, Word{f, at, at + 300*ms})
		at += 300 * ms
	}
	return words
}

func cueTexts(text string) []string {
	texts := make([]string, 0, 4)
	for _, c := range Cues(spoken(text)) {
		texts = append(texts, c.Text)
	}
	return texts
}

func TestCuesEndWithSentencesAndPauses(t *testing.T) {
	for _, want := range [][]string{
		{"It is late.", "We go home."},
		{"Is it?", "Yes!", "Well…", "Perhaps."},
		{"Wait", "for me."},
		{"It costs 3.5 dollars.", "That is fine."},
		{"Dr. Smith met Mrs. Jones.", "They talked."},
		{"J. S. Bach wrote it.", "So did I.", "Good."},
		{"Tea, milk, etc. are here.", "Tea, milk, etc.", "We have all."},
		{"At 9 a.m. we met.", "At 9 a.m.", "We met."},
		{"See no. 5 there.", "Oh no.", "It is late."},
		{"He said \"stop.\"", "Then he left."},
		{"Version 3. 5 is out.", "It was in 1990.", "Then it ended."},
		{"And so on...", "Then it ended."},
		{"क्या यह है?", "हाँ।", "ठीक है"},
	} {
		require.Equal(t, want, cueTexts(strings.NewReplacer("Wait ", "Wait | ").Replace(strings.Join(want, " "))))
	}
}

func TestScriptsWithoutSpaces(t *testing.T) {
	cues := Cues([]Word{{"今天天气很好。我们去公园吧！", 0, 4 * time.Second}, {"好的", 4 * time.Second, 5 * time.Second}, {"走吧", 5 * time.Second, 6 * time.Second}})
	require.Len(t, cues, 3)
	require.Equal(t, "今天天气很好。", cues[0].Text)
	require.Equal(t, "我们去公园吧！", cues[1].Text)
	require.Equal(t, 2*time.Second, cues[1].Start, "a word's time is divided")
	require.Equal(t, "好的走吧", cues[2].Text, "no space between ideographs")

	long := strings.Repeat("長い文章", 10) + "、" + strings.Repeat("続き", 12) + "。"
	cues = Cues([]Word{{long, 0, 12 * time.Second}})
	var all string
	for _, c := range cues {
		all += c.Text
		for _, line := range c.Lines {
			require.LessOrEqual(t, textWidth(line), LineWidth)
			require.NotContains(t, "。、", string([]rune(line)[0]), "punctuation does not begin a line")
		}
	}
	require.Equal(t, long, all)
}

func TestLinesAreBalanced(t *testing.T) {
	cues := Cues(spoken("our small grey cat sleeps on the old garden wall all day"))
	require.Len(t, cues, 1)
	require.Equal(t, []string{"our small grey cat sleeps on", "the old garden wall all day"}, cues[0].Lines)

	cues = Cues(spoken("when all the work had been done, they went home for the night"))
	require.Equal(t, []string{"when all the work had been done,", "they went home for the night"}, cues[0].Lines)
}

// A long sentence is divided evenly: no cue of a word or two is left over.
func TestLongSentenceIsDividedEvenly(t *testing.T) {
	cues := Cues(spoken(strings.Repeat("word ", 24)))
	require.Len(t, cues, 2)
	require.InDelta(t, len(cues[0].Text), len(cues[1].Text), 10)
}

func TestShortCueIsShownLonger(t *testing.T) {
	cues := Cues([]Word{{"Yes.", 0, 200 * ms}, {"No.", 500 * ms, 600 * ms}, {"Why?", 3000 * ms, 3100 * ms}})
	require.Equal(t, 500*ms, cues[0].End, "as far as the next one allows")
	require.Equal(t, 1300*ms, cues[1].End)
	require.Equal(t, 3800*ms, cues[2].End)
}

func TestNoWordsNoCues(t *testing.T) {
	require.Empty(t, Cues(nil))
	require.Empty(t, Cues([]Word{{"", 0, 1}, {" \n", 1, 2}}))
}

func anyWords() *rapid.Generator[[]Word] {
	text := rapid.OneOf(
		rapid.StringMatching(`[a-zA-Z]{1,12}[.,?!]?`),
		rapid.SampledFrom([]string{"Dr.", "3.5", "etc.", "“Yes!”", "今天很好。我们走吧", "ありがとうございます", "é́́", "a\tb\nc", "", "--", "😀😀", "สวัสดีครับ"}),
		rapid.StringMatching(`[a-z]{40,130}`),
		rapid.StringMatching(`[一-龥。、]{1,100}`),
		rapid.StringN(0, 60, -1),
	)
	return rapid.Custom(func(t *rapid.T) []Word {
		words := make([]Word, rapid.IntRange(0, 60).Draw(t, "words"))
		var at time.Duration
		for i := range words {
			at += time.Duration(rapid.IntRange(-200, 900).Draw(t, "gap")) * ms
			start := at
			at += time.Duration(rapid.IntRange(-100, 9000).Draw(t, "length")) * 100 * time.Microsecond
			words[i] = Word{text.Draw(t, "text"), start, at}
		}
		return words
	})
}

func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			return -1
		}
		return r
	}, s)
}

// Whatever the words: each is shown once and in order, lines keep to their limit, and cues neither overlap nor go back.
func TestCueProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := anyWords().Draw(t, "words")
		cues := Cues(words)
		var said, shown, lines strings.Builder
		for _, w := range words {
			said.WriteString(w.Text)
		}
		var last time.Duration
		for i, c := range cues {
			shown.WriteString(c.Text)
			require.NotEmpty(t, c.Lines)
			require.LessOrEqual(t, len(c.Lines), MaxLines)
			for _, line := range c.Lines {
				lines.WriteString(line)
				require.NotEmpty(t, line)
				require.Equal(t, strings.TrimSpace(line), line)
				require.LessOrEqual(t, textWidth(line), LineWidth, line)
			}
			require.GreaterOrEqual(t, c.Start, last, "cue %d overlaps the one before", i)
			require.Greater(t, c.End, c.Start, "cue %d", i)
			require.Zero(t, c.Start%ms+c.End%ms, "cue %d", i)
			if i+1 < len(cues) && c.End-c.Start < MinDuration {
				require.Equal(t, cues[i+1].Start, c.End, "cue %d is short though there is room", i)
			}
			last = c.End
		}
		require.Equal(t, letters(string([]rune(said.String()))), letters(shown.String()))
		require.Equal(t, letters(shown.String()), letters(lines.String()))
	})
}

// Words that fit a line come out whole, and only a single one may be shown for longer than the limit.
func TestWordsStayWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,42}[.,?!]?`).Filter(func(s string) bool { return len(s) <= LineWidth }), 0, 50).Draw(t, "texts")
		words := make([]Word, len(texts))
		var at time.Duration
		for i, text := range texts {
			end := at + time.Duration(rapid.IntRange(0, 8000).Draw(t, "length"))*ms
			words[i] = Word{text, at, end}
			at = end + time.Duration(rapid.IntRange(0, 1000).Draw(t, "gap"))*ms
		}
		shown := []string{}
		for _, c := range Cues(words) {
			in := strings.Fields(strings.Join(c.Lines, " "))
			if len(in) > 1 {
				require.LessOrEqual(t, c.End-c.Start, MaxDuration+shortest)
			}
			shown = append(shown, in...)
		}
		require.Equal(t, append([]string{}, texts...), shown)
	})
}
