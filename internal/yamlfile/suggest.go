package yamlfile

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Suggest returns the end of a message about an unknown name: the known name with the same letters in another
// case or order, or the one that differs in few letters, or those with some of the same words, or all names if they are few.
func Suggest(name string, known []string) string {
	near := nearest(name, known)
	if len(near) == 0 {
		near = sameWords(name, known)
	}
	if len(near) > 0 {
		return didYouMean(near, "")
	}
	if len(known) > 0 && len(known) <= 10 {
		return fmt.Sprintf(" (want %s)", strings.Join(known, ", "))
	}
	return ""
}

// nearest returns the known name that a misspelt name stands for, or none.
func nearest(name string, known []string) []string {
	letters := func(s string) string { return string(slices.Sorted(slices.Values([]rune(strings.ToLower(s))))) }
	for _, other := range known {
		if letters(other) == letters(name) {
			return []string{other}
		}
	}
	closest, least := "", math.MaxInt
	for _, other := range known {
		if n := edits(strings.ToLower(name), strings.ToLower(other)); n < least && n <= max(len(name), len(other))/lettersPerEdit {
			closest, least = other, n
		}
	}
	if closest != "" {
		return []string{closest}
	}
	return nil
}

// maxNear is how many names with the same words are suggested.
const maxNear = 3

// sameWords returns the known names that share at least half of their words with a name, the most similar first.
func sameWords(name string, known []string) []string {
	if len(name) > maxSuggested {
		return nil
	}
	wanted := words(name)
	shared := map[string]float64{}
	for _, other := range known {
		have := words(other)
		n := 0
		for _, w := range wanted {
			if slices.Contains(have, w) {
				n++
			}
		}
		if part := float64(n) / float64(max(len(wanted), len(have))); part >= 0.5 {
			shared[other] = part
		}
	}
	near := slices.SortedFunc(maps.Keys(shared), func(a, b string) int {
		return cmp.Or(cmp.Compare(shared[b], shared[a]), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return near[:min(len(near), maxNear)]
}

func words(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_.[] ", r) })
}

func didYouMean(near []string, where string) string {
	quoted := make([]string, len(near))
	for i, n := range near {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	if last := len(quoted) - 1; last > 0 {
		quoted = []string{strings.Join(quoted[:last], ", "), quoted[last]}
	}
	return fmt.Sprintf(" (did you mean %s%s?)", strings.Join(quoted, " or "), where)
}

// suggestField is [Suggest] for a field of a struct. The field may also belong into a part of the struct, or be one of root.
func suggestField(name string, known, root map[string]reflect.Type) string {
	here := slices.Sorted(maps.Keys(known))
	if near := nearest(name, here); len(near) > 0 {
		return didYouMean(near, "")
	}
	if near := named(name, paths(known, "", 0)); len(near) > 0 {
		return didYouMean(near, "")
	}
	if near := named(name, paths(root, "", 0)); len(near) > 0 {
		return didYouMean(near, " at the top level")
	}
	return Suggest(name, here)
}

// named returns the paths that end with a name, or that consist of its words, the shortest first.
func named(name string, paths []string) []string {
	near := slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		last := path[strings.LastIndexByte(path, '.')+1:]
		return !strings.EqualFold(last, name) && !slices.Equal(words(path), words(name))
	})
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	return near[:min(len(near), maxNear)]
}

// maxPathDepth limits the paths of types that contain themselves.
const maxPathDepth = 5

// paths returns the fields of a struct and of its parts, such as resources[].codec, in order.
func paths(fields map[string]reflect.Type, prefix string, depth int) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		path, t := prefix+name, fields[name]
		all = append(all, path)
		for kind := t.Kind(); kind == reflect.Pointer || kind == reflect.Slice; kind = t.Kind() {
			if kind == reflect.Slice {
				path += "[]"
			}
			t = t.Elem()
		}
		if text, _ := kindOf(t); text == "a mapping" && t.Kind() == reflect.Struct && depth < maxPathDepth {
			all = append(all, paths(fieldsOf(t), path+".", depth+1)...)
		}
	}
	return all
}

// lettersPerEdit is how long names must be for each letter in which they may differ.
const lettersPerEdit = 4

// edits returns how many letters must be inserted, removed or replaced to make one text of another.
func edits(from, to string) int {
	if max(len(from), len(to)) > maxSuggested {
		return maxSuggested
	}
	row := make([]int, len(to)+1) // the edits from the first letters of from to each beginning of to
	for j := range row {
		row[j] = j
	}
	for i := range len(from) {
		above := row[0]
		row[0] = i + 1
		for j := range len(to) {
			replaced := above
			if from[i] != to[j] {
				replaced++
			}
			above = row[j+1]
			row[j+1] = min(replaced, above+1, row[j]+1)
		}
	}
	return row[len(to)]
}

// maxSuggested is the length of the longest name that is compared with others.
const maxSuggested = 100
