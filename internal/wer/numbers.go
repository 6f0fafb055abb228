package wer

import (
	"strconv"
	"strings"
)

var units = map[string]int{
	"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11,
	"twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19,
}

var tens = map[string]int{
	"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}

var scales = map[string]int{"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}

var currencies = map[string]string{"dollar": "$", "dollars": "$", "pound": "£", "pounds": "£", "euro": "€", "euros": "€"}

// numbers writes spelled-out cardinals in digits: "two hundred and five" is "205", "nineteen eighty four" is "1984" and
// "three point one four" is "3.14". A lone "one" stays a word, since it mostly is none. A currency that follows a number
// moves to its front, and "percent" becomes a sign.
func numbers(words []string) []string {
	var out []string
	for i := 0; i < len(words); {
		value, used := number(words[i:])
		if used == 0 {
			out = append(out, words[i])
			i++
			continue
		}
		i += used
		if i < len(words) {
			if sign, ok := currencies[words[i]]; ok {
				value = sign + value
				i++
			} else if words[i] == "percent" {
				value += "%"
				i++
			}
		}
		out = append(out, value)
	}
	return out
}

// number reads the longest number at the front of words. It returns how many words that took, 0 if there is none.
func number(words []string) (text string, used int) {
	if isDigits(words[0]) {
		if len(words) > 1 && scales[words[1]] > 0 && len(words[0]) <= 3 {
			n, _ := strconv.Atoi(words[0]) // at most three digits
			return strconv.Itoa(n * scales[words[1]]), 2
		}
		return words[0], 1
	}
	total, used := cardinal(words)
	if used == 0 || used == 1 && words[0] == "one" && (len(words) == 1 || currencies[words[1]] == "" && words[1] != "percent" && words[1] != "point") {
		return "", 0
	}
	// Years: two numbers from 10 to 99, the first below 21.
	if total >= 10 && total <= 20 && used < len(words) {
		if low, more := below100(words[used:]); more > 0 && low >= 10 && !follows(words[used+more:]) {
			return strconv.Itoa(total*100 + low), used + more
		}
	}
	text = strconv.Itoa(total)
	if used+1 < len(words) && words[used] == "point" {
		digits := ""
		for _, w := range words[used+1:] {
			d, ok := units[w]
			if !ok || d > 9 {
				break
			}
			digits += strconv.Itoa(d)
		}
		if digits != "" {
			return text + "." + digits, used + 1 + len(digits)
		}
	}
	return text, used
}

func isDigits(w string) bool { return w != "" && strings.Trim(w, "0123456789") == "" }

// follows says that a hundred or a scale comes next, so that what stands before it belongs to it.
func follows(words []string) bool {
	return len(words) > 0 && (words[0] == "hundred" || scales[words[0]] > 0)
}

// cardinal reads thousands: groups below a thousand, each with a smaller scale than the one before it.
func cardinal(words []string) (total, used int) {
	limit := int(1e15)
	for used < len(words) {
		at := used
		if used > 0 && words[at] == "and" && at+1 < len(words) {
			at++
		}
		group, n := below1000(words[at:])
		if n == 0 {
			break
		}
		at += n
		scale := 1
		if at < len(words) && scales[words[at]] > 0 {
			scale = scales[words[at]]
			at++
		}
		if scale >= limit {
			break
		}
		total, used, limit = total+group*scale, at, scale
		if scale == 1 {
			break
		}
	}
	return total, used
}

func below1000(words []string) (value, used int) {
	value, used = below100(words)
	if used == 0 || value == 0 || used >= len(words) || words[used] != "hundred" {
		return value, used
	}
	value, used = value*100, used+1
	at := used
	if at < len(words) && words[at] == "and" {
		at++
	}
	if rest, n := below100(words[at:]); n > 0 && (at+n >= len(words) || words[at+n] != "hundred") {
		return value + rest, at + n
	}
	return value, used
}

func below100(words []string) (value, used int) {
	if len(words) == 0 {
		return 0, 0
	}
	if u, ok := units[words[0]]; ok {
		return u, 1
	}
	t, ok := tens[words[0]]
	if !ok {
		return 0, 0
	}
	if len(words) > 1 {
		if u := units[words[1]]; u > 0 && u < 10 {
			return t + u, 2
		}
	}
	return t, 1
}
