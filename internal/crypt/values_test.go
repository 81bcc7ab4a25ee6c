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

// wantOpen fails the test if Open does not return the wanted value.
func wantOpen(t *testing.T, v *crypt.Values, key string, stored []byte, want string) {
	t.Helper()
	if got, err := v.Open(key, stored); err != nil || string(got) != want {
		t.Errorf("%s: got %q, %v; want %q", key, got, err, want)
	}
}

const magic = "\x00fanoutd"

// values contains values that resemble other stored forms.
var values = []string{"", "plain", "\x00", magic, magic + "\x00", magic + "\x01", magic + "\x01\x01abcdefgh", "\x00fo\x01x", strings.Repeat("x", 1<<20)}

// Open returns the value given to Seal, with and without encryption, for every reader with
// the key.
func TestOpenReturnsTheSealedValue(t *testing.T) {
	keyset, id := create(t)
	r := ring(t, keyset)
	encrypted, plain, keyless := r.Values(true), r.Values(false), ring(t).Values(false)
	for _, value := range values {
		stored := seal(t, encrypted, "/a/k", value)
		// The ciphertext may contain shorter values by chance.
		if len(value) >= 5 && bytes.Contains(stored[len(magic)+2:], []byte(value)) {
			t.Errorf("%q is stored unencrypted", value)
		}
		if n := len(stored) - len(value); n != 54 {
			t.Errorf("got an overhead of %d bytes, want 54", n)
		}
		wantOpen(t, encrypted, "/a/k", stored, value)
		wantOpen(t, plain, "/a/k", stored, value)
		if !encrypted.IsCurrent(stored) || plain.IsCurrent(stored) {
			t.Errorf("%q encrypted: got current %t and %t, want true and false", value, encrypted.IsCurrent(stored), plain.IsCurrent(stored))
		}
		if got, err := keyless.Open("/a/k", stored); err == nil || !err.Missing || err.KeyID != id {
			t.Errorf("without keys: got %q, %v, want the missing key %d", got, err, id)
		}
		stored = seal(t, plain, "/a/k", value)
		if !strings.HasPrefix(value, magic) && string(stored) != value {
			t.Errorf("unencrypted, %q is stored as %q, want the same", value, stored)
		}
		for _, v := range []*crypt.Values{encrypted, plain, keyless} {
			wantOpen(t, v, "/a/k", stored, value)
		}
		if encrypted.IsCurrent(stored) || !plain.IsCurrent(stored) {
			t.Errorf("%q unencrypted: got current %t and %t, want false and true", value, encrypted.IsCurrent(stored), plain.IsCurrent(stored))
		}
	}
	if _, err := ring(t).Values(true).Seal("k", nil); err == nil {
		t.Error("Seal succeeded without keys")
	}
}

// A stored value decrypts only under its own etcd key and without damage.
func TestMovedOrDamagedValuesDoNotDecrypt(t *testing.T) {
	keyset, id := create(t)
	v := ring(t, keyset).Values(true)
	stored := seal(t, v, "/a/k", "secret")
	if got, err := v.Open("/a/other", stored); err == nil || err.Missing || err.KeyID != id || got != nil {
		t.Errorf("under another key: got %q, %v, want an error with key id %d", got, err, id)
	}
	for i := range stored {
		damaged := bytes.Clone(stored)
		damaged[i] ^= 0x10
		got, err := v.Open("/a/k", damaged)
		if i < len(magic) && (err != nil || !bytes.Equal(got, damaged)) {
			t.Errorf("damaged magic at %d: got %q, %v, want the stored bytes", i, got, err)
		}
		if i >= len(magic) && err == nil {
			t.Errorf("damaged at %d: got %q, want an error", i, got)
		}
	}
	for n := len(magic); n < len(stored); n++ {
		if got, err := v.Open("/a/k", stored[:n]); err == nil {
			t.Errorf("truncated to %d bytes: got %q, want an error", n, got)
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
		t.Error("the channel Changed is not closed after a change of keys")
	}
	if r.Fingerprint() == name || r.Fingerprint() != ring(t, third).Fingerprint() {
		t.Error("the fingerprint does not identify the keys")
	}
	two := seal(t, v, "k", "2")
	if !v.IsCurrent(one) || !v.IsCurrent(two) || v.Primary() != old {
		t.Error("an added key encrypts before its promotion")
	}
	if err := r.Use(third); err != nil {
		t.Fatal(err)
	}
	three := seal(t, v, "k", "3")
	if v.IsCurrent(one) || v.IsCurrent(two) || !v.IsCurrent(three) || v.Primary() != id {
		t.Error("the promoted key does not encrypt")
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
		t.Errorf("with a removed key: got %q, %v, want the missing key %d", got, err, old)
	}
	wantOpen(t, v, "k", three, "3")
	if _, err := crypt.Remove(fourth, id); err == nil {
		t.Error("Remove removed the primary key")
	}
}

// After an unusable keyset the old keys stay in use. The error contains no key material.
func TestUnusableKeysetsAreRefused(t *testing.T) {
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
		"empty":        "",
		"not JSON":     secret,
		"not a keyset": "{}",
		"truncated":    string(keyset[:len(keyset)/2]),
		"bad base64":   strings.Replace(string(keyset), secret, secret+"*", 1),
		"no prefix":    with(func(k map[string]any) { k["outputPrefixType"] = "RAW" }),
		"disabled":     with(func(k map[string]any) { k["status"] = "DISABLED" }),
		"not for AEAD": with(func(k map[string]any) {
			k["keyData"].(map[string]any)["typeUrl"] = "type.googleapis.com/google.crypto.tink.HmacKey"
		}),
		"unknown type":  with(func(k map[string]any) { k["keyData"].(map[string]any)["typeUrl"] = "type.googleapis.com/x.Y" }),
		"other primary": strings.Replace(string(keyset), `"primaryKeyId": `, `"primaryKeyId": 1`, 1),
	} {
		err := r.Use([]byte(bad))
		if err == nil {
			t.Errorf("%s: the keyset was accepted", name)
			continue
		}
		if strings.Contains(err.Error(), secret[:8]) {
			t.Errorf("%s: the error contains key material: %v", name, err)
		}
	}
	if r.Values(true).Primary() != id {
		t.Error("the old keys are no longer in use")
	}
	keys, err := crypt.Keys(keyset)
	if err != nil || len(keys) != 1 || keys[0].ID != id || !keys[0].Primary || keys[0].Status != "enabled" || keys[0].Type != "XAesGcmKey" {
		t.Errorf("got %+v, %v, want the one enabled primary key", keys, err)
	}
}
