package crypt_test

import (
	"bytes"
	"testing"
)

// FuzzValues checks that Open accepts arbitrary bytes, that Open reverses Seal for every
// value, and that an encrypted value does not decrypt under another etcd key.
func FuzzValues(f *testing.F) {
	for _, v := range values[:len(values)-1] {
		f.Add("/a/k", []byte(v))
	}
	first, _ := create(f)
	r := ring(f, first)
	encrypted, plain := r.Values(true), r.Values(false)
	f.Add("/a/k", seal(f, encrypted, "/a/k", "x"))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		if read, err := encrypted.Open(key, value); err != nil && read != nil {
			t.Errorf("got the value %q together with an error", read)
		}
		for _, v := range [][]byte{seal(t, encrypted, key, string(value)), seal(t, plain, key, string(value))} {
			if read, err := plain.Open(key, v); err != nil || !bytes.Equal(read, value) {
				t.Errorf("%q was sealed and opened as %q, %v", value, read, err)
			}
		}
		if read, err := plain.Open(key+"x", seal(t, encrypted, key, string(value))); err == nil {
			t.Errorf("under another key: got %q, want an error", read)
		}
	})
}
