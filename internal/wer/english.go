package wer

import (
	"strings"
	"unicode"
)

// english follows the description in the appendix of the Whisper paper, so that rates can be compared with published
// ones: remarks in brackets and fillers go, contractions and titles are written out, American spelling, numbers in
// digits, "ten dollars" as "$10", no punctuation otherwise. The spelling list is short, so rates may differ in the
// second decimal from those of the original.
func english(s string) []string {
	s = strings.NewReplacer("’", "'", "‘", "'", "ʼ", "'").Replace(strings.ToLower(s))
	s = dropRemarks(s)
	s = strings.ReplaceAll(s, " '", "'")
	var words []string
	for _, w := range strings.Fields(symbols([]rune(s))) {
		if fillers[w] {
			continue
		}
		words = append(words, expand(w)...)
	}
	for i, w := range words {
		if american, ok := spellings[w]; ok {
			words[i] = american
		}
	}
	return numbers(words)
}

// symbols keeps letters, digits, apostrophes inside words, a point between digits, and the signs of currencies and
// percent beside digits; commas between digits close up, all else parts words. Letters lose their diacritics.
func symbols(s []rune) string {
	at := func(i int) rune {
		if i < 0 || i >= len(s) {
			return ' '
		}
		return s[i]
	}
	var out strings.Builder
	for i, r := range s {
		before, after := unicode.IsDigit(at(i-1)), unicode.IsDigit(at(i+1))
		switch {
		case plainLetters[r] != "":
			out.WriteString(plainLetters[r])
		case unicode.IsLetter(r), unicode.IsDigit(r):
			out.WriteRune(r)
		case unicode.IsMark(r), r == ',' && before && after:
		case r == '\'' && unicode.IsLetter(at(i-1)) && unicode.IsLetter(at(i+1)),
			r == '.' && before && after, r == '%' && before, strings.ContainsRune(currencySigns, r) && after:
			out.WriteRune(r)
		case r == '.' && unicode.IsLetter(at(i-1)): // an abbreviation: "u.s." is "us"
		default:
			out.WriteRune(' ')
		}
	}
	return out.String()
}

const currencySigns = "$£€"

var plainLetters = map[rune]string{
	'à': "a", 'á': "a", 'â': "a", 'ã': "a", 'ä': "a", 'å': "a", 'æ': "ae", 'ç': "c", 'è': "e", 'é': "e", 'ê': "e", 'ë': "e", 'ì': "i", 'í': "i",
	'î': "i", 'ï': "i", 'ñ': "n", 'ò': "o", 'ó': "o", 'ô': "o", 'õ': "o", 'ö': "o", 'ø': "o", 'œ': "oe", 'ù': "u", 'ú': "u", 'û': "u", 'ü': "u",
	'ý': "y", 'ÿ': "y", 'ß': "ss", 'ł': "l", 'đ': "d", 'þ': "th", 'ð': "d", 'š': "s", 'ž': "z", 'č': "c", 'ć': "c", 'ř': "r", 'ě': "e",
}

var fillers = map[string]bool{"hmm": true, "mm": true, "mhm": true, "mmm": true, "uh": true, "um": true}

// expand writes contractions and titles out.
func expand(w string) []string {
	if whole, ok := contractions[w]; ok {
		return strings.Fields(whole)
	}
	for _, e := range endings {
		if stem, ok := strings.CutSuffix(w, e.short); ok && stem != "" {
			return []string{stem, e.long}
		}
	}
	return strings.Fields(strings.ReplaceAll(w, "'", ""))
}

var contractions = map[string]string{
	"won't": "will not", "can't": "can not", "cannot": "can not", "let's": "let us", "ain't": "aint", "y'all": "you all", "ma'am": "madam",
	"wanna": "want to", "gonna": "going to", "gotta": "got to", "imma": "i am going to", "i'ma": "i am going to", "woulda": "would have",
	"coulda": "could have", "shoulda": "should have",
	"mr": "mister", "mrs": "missus", "st": "saint", "dr": "doctor", "prof": "professor", "capt": "captain", "gov": "governor",
	"gen": "general", "sen": "senator", "rep": "representative", "pres": "president", "rev": "reverend", "hon": "honorable",
	"asst": "assistant", "assoc": "associate", "lt": "lieutenant", "col": "colonel", "jr": "junior", "sr": "senior", "esq": "esquire",
}

// endings apply whatever the word: "'s" is taken for "is" in both texts, also where it is a genitive.
var endings = []struct{ short, long string }{
	{"n't", "not"}, {"'re", "are"}, {"'s", "is"}, {"'d", "would"}, {"'ll", "will"}, {"'t", "not"}, {"'ve", "have"}, {"'m", "am"},
}

var spellings = map[string]string{
	"colour": "color", "colours": "colors", "coloured": "colored", "favour": "favor", "favourite": "favorite", "favourites": "favorites",
	"honour": "honor", "honours": "honors", "honoured": "honored", "labour": "labor", "neighbour": "neighbor", "neighbours": "neighbors",
	"neighbourhood": "neighborhood", "harbour": "harbor", "humour": "humor", "rumour": "rumor", "rumours": "rumors", "behaviour": "behavior",
	"flavour": "flavor", "vapour": "vapor", "armour": "armor", "parlour": "parlor", "splendour": "splendor", "vigour": "vigor", "endeavour": "endeavor",
	"centre": "center", "centres": "centers", "theatre": "theater", "theatres": "theaters", "metre": "meter", "metres": "meters", "litre": "liter",
	"litres": "liters", "kilometre": "kilometer", "kilometres": "kilometers", "fibre": "fiber", "calibre": "caliber", "sombre": "somber",
	"organise": "organize", "organised": "organized", "organisation": "organization", "organisations": "organizations", "realise": "realize",
	"realised": "realized", "recognise": "recognize", "recognised": "recognized", "apologise": "apologize", "criticise": "criticize",
	"emphasise": "emphasize", "analyse": "analyze", "analysed": "analyzed", "civilisation": "civilization", "travelled": "traveled",
	"travelling": "traveling", "traveller": "traveler", "travellers": "travelers", "cancelled": "canceled", "marvellous": "marvelous",
	"jewellery": "jewelry", "grey": "gray", "defence": "defense", "offence": "offense", "licence": "license", "practise": "practice",
	"catalogue": "catalog", "dialogue": "dialog", "programme": "program", "programmes": "programs", "cheque": "check", "tyre": "tire", "tyres": "tires",
	"plough": "plow", "mould": "mold", "moustache": "mustache", "pyjamas": "pajamas", "sceptical": "skeptical", "storey": "story", "towards": "toward",
}
