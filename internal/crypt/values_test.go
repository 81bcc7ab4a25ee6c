package crypt_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/crypt"
)

func create(t testing.TB) (keyset []byte, id uint32) {
	t.Helper()
	keyset, id, err := crypt.Create()
	if err != nil {
		t.Fatal(err)
	}
	return keyset, id
}

func add(t *testing.T, keyset []byte) ([]byte, uint32) {
	t.Helper()
	keyset, id, err := crypt.Add(keyset)
	if err != nil {
		t.Fatal(err)
	}
	return keyset, id
}

func promote(t *testing.T, keyset []byte, id uint32) []byte {
	t.Helper()
	keyset, _, err := crypt.Promote(keyset, id)
	if err != nil {
		t.Fatal(err)
	}
	return keyset
}

func ring(t testing.TB, keysets ...[]byte) *crypt.Keyring {
	t.Helper()
	r := crypt.NewKeyring(slog.New(slog.DiscardHandler))
	for _, k := range keysets {
		if err := r.Use(k); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func seal(t testing.TB, v *crypt.Values, key, value string) []byte {
	t.Helper()
	stored, err := v.Seal(key, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// wantOpen opens what is stored.
func wantOpen(t *testing.T, v *crypt.Values, key string, stored []byte, want string) {
	t.Helper()
	if got, err := v.Open(key, stored); err != nil || string(got) != want {
		t.Errorf("%s: got %q, %v; want %q", key, got, err, want)
	}
}

const magic = "\x00fanoutd"

// values are those that could be mistaken for something else.
var values = []string{"", "plain", "\x00", magic, magic + "\x00", magic + "\x01", magic + "\x01\x01abcdefgh", "\x00fo\x01x", strings.Repeat("x", 1<<20)}

// Whatever is written is what is read, encrypted or not, whoever reads it.
func TestWhatIsWrittenIsRead(t *testing.T) {
	keyset, id := create(t)
	r := ring(t, keyset)
	encrypted, plain, keyless := r.Values(true), r.Values(false), ring(t).Values(false)
	for _, value := range values {
		stored := seal(t, encrypted, "/a/k", value)
		// A shorter value may be in there by chance.
		if len(value) >= 5 && bytes.Contains(stored[len(magic)+2:], []byte(value)) {
			t.Errorf("%q is stored as it is", value)
		}
		if n := len(stored) - len(value); n != 54 {
			t.Errorf("encryption takes %d bytes", n)
		}
		wantOpen(t, encrypted, "/a/k", stored, value)
		wantOpen(t, plain, "/a/k", stored, value)
		if !encrypted.IsCurrent(stored) || plain.IsCurrent(stored) {
			t.Errorf("%q: encrypted, it is fresh: %t %t", value, encrypted.IsCurrent(stored), plain.IsCurrent(stored))
		}
		if got, err := keyless.Open("/a/k", stored); err == nil || !err.Missing || err.KeyID != id {
			t.Errorf("without keys: %q, %v", got, err)
		}
		stored = seal(t, plain, "/a/k", value)
		if !strings.HasPrefix(value, magic) && string(stored) != value {
			t.Errorf("plain, %q is stored as %q", value, stored)
		}
		for _, v := range []*crypt.Values{encrypted, plain, keyless} {
			wantOpen(t, v, "/a/k", stored, value)
		}
		if encrypted.IsCurrent(stored) || !plain.IsCurrent(stored) {
			t.Errorf("%q: plain, it is fresh: %t %t", value, encrypted.IsCurrent(stored), plain.IsCurrent(stored))
		}
	}
	if _, err := ring(t).Values(true).Seal("k", nil); err == nil {
		t.Error("without keys something is encrypted")
	}
}

// What is stored belongs to its key, and is what was stored.
func TestWhatIsMovedOrDamagedIsNotDecrypted(t *testing.T) {
	keyset, id := create(t)
	v := ring(t, keyset).Values(true)
	stored := seal(t, v, "/a/k", "secret")
	if got, err := v.Open("/a/other", stored); err == nil || err.Missing || err.KeyID != id || got != nil {
		t.Errorf("moved: %q, %v", got, err)
	}
	for i := range stored {
		damaged := bytes.Clone(stored)
		damaged[i] ^= 0x10
		got, err := v.Open("/a/k", damaged)
		if i < len(magic) && (err != nil || !bytes.Equal(got, damaged)) {
			t.Errorf("without the magic it is not plain: %q, %v", got, err)
		}
		if i >= len(magic) && err == nil {
			t.Errorf("damaged at %d: %q", i, got)
		}
	}
	for n := len(magic); n < len(stored); n++ {
		if got, err := v.Open("/a/k", stored[:n]); err == nil {
			t.Errorf("cut at %d: %q", n, got)
		}
	}
}

func TestRotation(t *testing.T) {
	first, old := create(t)
	second, id := add(t, first)
	third := promote(t, second, 0)
	r := ring(t, first)
	v := r.Values(true)
	one := seal(t, v, "k", "1")
	changed, name := r.Changed(), r.Fingerprint()
	if err := r.Use(second); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("nobody is told that the keys have changed")
	}
	if r.Fingerprint() == name || r.Fingerprint() != ring(t, third).Fingerprint() {
		t.Error("the name is not that of the keys that are there")
	}
	two := seal(t, v, "k", "2")
	if !v.IsCurrent(one) || !v.IsCurrent(two) || v.Primary() != old {
		t.Error("a key that was only added is used to encrypt")
	}
	if err := r.Use(third); err != nil {
		t.Fatal(err)
	}
	three := seal(t, v, "k", "3")
	if v.IsCurrent(one) || v.IsCurrent(two) || !v.IsCurrent(three) || v.Primary() != id {
		t.Error("the key that was promoted is not used")
	}
	for stored, want := range map[string]string{string(one): "1", string(two): "2", string(three): "3"} {
		wantOpen(t, v, "k", []byte(stored), want)
	}
	fourth, err := crypt.Remove(third, old)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Use(fourth); err != nil {
		t.Fatal(err)
	}
	if got, err := v.Open("k", one); err == nil || !err.Missing || err.KeyID != old {
		t.Errorf("with a key that is gone: %q, %v", got, err)
	}
	wantOpen(t, v, "k", three, "3")
	if _, err := crypt.Remove(fourth, id); err == nil {
		t.Error("the primary key was removed")
	}
}

// A keyset that cannot be used leaves the one that is, and nobody is told its keys.
func TestKeysetsThatAreRefused(t *testing.T) {
	keyset, id := create(t)
	r := ring(t, keyset)
	var parsed map[string]any
	if err := json.Unmarshal(keyset, &parsed); err != nil {
		t.Fatal(err)
	}
	key := parsed["key"].([]any)[0].(map[string]any)
	secret := key["keyData"].(map[string]any)["value"].(string)
	with := func(change func(map[string]any)) string {
		var copied map[string]any
		if err := json.Unmarshal(keyset, &copied); err != nil {
			t.Fatal(err)
		}
		change(copied["key"].([]any)[0].(map[string]any))
		out, err := json.Marshal(copied)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for name, bad := range map[string]string{
		"empty":      "",
		"no JSON":    secret,
		"no keyset":  "{}",
		"cut off":    string(keyset[:len(keyset)/2]),
		"bad base64": strings.Replace(string(keyset), secret, secret+"*", 1),
		"no prefix":  with(func(k map[string]any) { k["outputPrefixType"] = "RAW" }),
		"disabled":   with(func(k map[string]any) { k["status"] = "DISABLED" }),
		"not for AEAD": with(func(k map[string]any) {
			k["keyData"].(map[string]any)["typeUrl"] = "type.googleapis.com/google.crypto.tink.HmacKey"
		}),
		"unknown type":  with(func(k map[string]any) { k["keyData"].(map[string]any)["typeUrl"] = "type.googleapis.com/x.Y" }),
		"other primary": strings.Replace(string(keyset), `"primaryKeyId": `, `"primaryKeyId": 1`, 1),
	} {
		err := r.Use([]byte(bad))
		if err == nil {
			t.Errorf("%s: it was taken", name)
			continue
		}
		if strings.Contains(err.Error(), secret[:8]) {
			t.Errorf("%s: the key is told: %v", name, err)
		}
	}
	if r.Values(true).Primary() != id {
		t.Error("the keys that were in use are not")
	}
	keys, err := crypt.Keys(keyset)
	if err != nil || len(keys) != 1 || keys[0].ID != id || !keys[0].Primary || keys[0].Status != "enabled" || keys[0].Type != "XAesGcmKey" {
		t.Errorf("got %+v, %v", keys, err)
	}
}
