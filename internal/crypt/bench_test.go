package crypt_test

import (
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/crypt"
)

// BenchmarkValues measures the encryption of a value of 1 KiB, and the decryption that each
// server performs when the value changes.
func BenchmarkValues(b *testing.B) {
	keyset, _, err := crypt.Create()
	if err != nil {
		b.Fatal(err)
	}
	r := ring(b, keyset)
	for name, v := range map[string]*crypt.Values{"encrypted": r.Values(true), "plain": r.Values(false)} {
		value := []byte(strings.Repeat("x", 1024))
		stored, err := v.Seal("/fanoutd/config/key", value)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/seal", func(b *testing.B) {
			for b.Loop() {
				_, _ = v.Seal("/fanoutd/config/key", value)
			}
		})
		b.Run(name+"/open", func(b *testing.B) {
			for b.Loop() {
				_, _ = v.Open("/fanoutd/config/key", stored)
			}
		})
	}
}
