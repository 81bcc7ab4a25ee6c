package store

import "testing"

func TestVersionsWithReliableProgress(t *testing.T) {
	for version, want := range map[string]bool{
		"3.3.27":         false,
		"3.4.0":          false,
		"3.4.30":         false,
		"3.4.31":         true,
		"3.4.37":         true,
		"3.5.0":          false,
		"3.5.7":          false,
		"3.5.12":         false,
		"3.5.13-rc.0":    false,
		"3.5.13":         true,
		"3.5.21":         true,
		"3.6.0":          true,
		"3.6.0-alpha.0":  true,
		"3.7.3":          true,
		"4.0.0":          true,
		"":               true,
		"something else": true,
	} {
		if got := progressIsReliable(version); got != want {
			t.Errorf("version %q: got %v, want %v", version, got, want)
		}
	}
}
