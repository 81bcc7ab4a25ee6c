package shell

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLastWords(t *testing.T) {
	long := strings.Repeat("x", 10*maxLastWords)
	for _, tt := range []struct{ written, want string }{
		{"", ""},
		{"\n\n", ""},
		{"one", "one"},
		{"one\ntwo\n\nthree\r\nfour\n\n", "two; three; four"},
		{"\x1b[31mrps\x1b[0m\tis\u00a0negative\x00\x07\n", "rps is negative"},
		{"a\xff\xfeb\u202ec\u2028d", "abc d"},
		{"30 %\r60 %\rbroken pipe", "30 %; 60 %; broken pipe"},
		{long, "…" + long[:maxLastWords-len("…")]},
		{strings.Repeat("ä", maxLastWords) + "b", "…" + strings.Repeat("ä", (maxLastWords-len("…b"))/2) + "b"},
		{long + "\nwhy", "…" + long[:maxLastWords-len("…; why")] + "; why"},
	} {
		for _, part := range []int{1, 7, len(tt.written) + 1} {
			var w lastWords
			for rest := tt.written; rest != ""; {
				n, err := w.Write([]byte(rest[:min(part, len(rest))]))
				if err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if got := w.String(); got != tt.want {
				t.Errorf("%.40q in parts of %d: got %q, want %q", tt.written, part, got, tt.want)
			}
		}
	}
}

func FuzzLastWords(f *testing.F) {
	f.Add([]byte("\x1b[31mred\n\x9b1mno\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var w lastWords
		_, _ = w.Write(text)
		got := w.String()
		if len(got) > maxLastWords || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("got %q", got)
		}
	})
}
