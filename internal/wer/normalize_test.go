package wer

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Invariant: what two people would write differently for the same speech is the same after normalisation.
func TestEnglish(t *testing.T) {
	for in, want := range map[string]string{
		"Hello, World! [laughter] (aside)":           "hello world",
		"Um, I can't. She won't; they're here":       "i can not she will not they are here",
		"The dog’s gone , isn 't it":                 "the dog is gone is not it",
		"Mr. Smith and Dr. Jones":                    "mister smith and doctor jones",
		"the colour of the theatre":                  "the color of the theater",
		"1,234 people at 3.5%":                       "1234 people at 3.5%",
		"ten thousand dollars":                       "$10000",
		"$20, or twenty dollars":                     "$20 or $20",
		"two hundred and five men":                   "205 men",
		"one of them":                                "one of them",
		"one dollar":                                 "$1",
		"one point five":                             "1.5",
		"twenty-one":                                 "21",
		"nineteen eighty four":                       "1984",
		"three million two hundred thousand and six": "3200006",
		"three point one four percent":               "3.14%",
		"5 million":                                  "5000000",
		"two and three":                              "2 and 3",
		"a hundred and forty":                        "a hundred and 40",
		"the U.S. café":                              "the us cafe",
		"o'clock [unclosed":                          "oclock unclosed",
		"":                                           "",
	} {
		require.Equal(t, want, strings.Join(English.Words(in), " "), in)
	}
	// Normalising twice is normalising once, but for signs that have been moved.
	for _, s := range []string{"I'd like two hundred and five", "Don't, Mr. Grey", "nineteen eighty four"} {
		once := English.Words(s)
		require.Equal(t, once, English.Words(strings.Join(once, " ")), s)
	}
}

func TestBasic(t *testing.T) {
	for in, want := range map[string]string{
		"¿Dónde está, señor? [música]": "dónde está señor",
		"L'été — «froid»":              "l été froid",
		"今日は、良い天気":                     "今 日 は 良 い 天 気",
		"Größe 3,5":                    "größe 3 5",
		"a < b":                        "a b",
	} {
		require.Equal(t, want, strings.Join(Basic.Words(in), " "), in)
	}
	require.Equal(t, []string{"a", "b", " ", "é"}, Chars([]string{"ab", "é"}))
}

func TestParseNormalizer(t *testing.T) {
	for _, name := range []string{"plain", "english", "basic"} {
		n, err := ParseNormalizer(name)
		require.NoError(t, err)
		require.NotEmpty(t, n.Words("a"))
	}
	_, err := ParseNormalizer("french")
	require.ErrorContains(t, err, "english, basic or plain")
}

// Invariants over any sequence of number words: digits come out, what comes out is never empty, and a spelled-out number
// below a million is read as its value.
func TestNumbers(t *testing.T) {
	vocabulary := []string{"one", "two", "ten", "nineteen", "twenty", "ninety", "hundred", "thousand", "million", "and", "point", "dollars", "percent", "7", "1234567", "a"}
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom(vocabulary), 0, 12).Draw(t, "words")
		for _, w := range numbers(words) {
			require.NotEmpty(t, w)
		}
		n := rapid.IntRange(2, 999999).Draw(t, "n")
		require.Equal(t, []string{strconv.Itoa(n)}, numbers(strings.Fields(spell(n))), spell(n))
	})
}

// spell writes a number as it is read out.
func spell(n int) string {
	name := func(table map[string]int, v int) string {
		for word, value := range table {
			if value == v {
				return word
			}
		}
		return ""
	}
	switch {
	case n >= 1000 && n%1000 == 0:
		return spell(n/1000) + " thousand"
	case n >= 1000:
		return spell(n/1000) + " thousand " + spell(n%1000)
	case n >= 100 && n%100 == 0:
		return spell(n/100) + " hundred"
	case n >= 100:
		return spell(n/100) + " hundred and " + spell(n%100)
	case n >= 20 && n%10 == 0:
		return name(tens, n)
	case n >= 20:
		return name(tens, n/10*10) + " " + name(units, n%10)
	}
	return name(units, n)
}
