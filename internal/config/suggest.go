package config

import "strings"

// didYouMean is a hint with the nearest of some words, or "" where none is near.
func didYouMean(given string, words []string) string {
	if near := nearest(given, words); near != "" {
		return `did you mean "` + near + `"?`
	}
	return ""
}

// nearest is the word that a misspelling was probably meant to be: the one at
// the smallest edit distance, of at most three edits and half the word. Keys that
// differ in their unit only (lease_timeout, lease_timeout_s for
// lease_timeout_ms), and words that end in what was given (REVIEW for
// ROUTE_REVIEW), count as one edit away.
func nearest(given string, words []string) string {
	if len(given) > maxSuggestable {
		return ""
	}
	best, least := "", 1<<30
	for _, word := range words {
		distance := EditDistance(given, word)
		if withoutUnit(given) == withoutUnit(word) || len(given) > 3 && strings.HasSuffix(word, given) {
			distance = min(distance, 1)
		}
		if distance <= min(3, len(word)/2) && distance < least {
			best, least = word, distance
		}
	}
	return best
}

func withoutUnit(key string) string {
	for _, unit := range []string{"_ms", "_s", "_h", "_m", "_bytes"} {
		if n := len(key) - len(unit); n > 0 && key[n:] == unit {
			return key[:n]
		}
	}
	return key
}

// EditDistance is Levenshtein's, on bytes: insertions, deletions and
// substitutions, one each. Both words are short; the work is their product.
func EditDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
