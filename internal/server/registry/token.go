package registry

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// TokenHeader is the entry of the response header with the token of a watch.
const TokenHeader = "fanout-watch"

// tokens makes the tokens with which clients name their watches in reports. A token has the
// number of the watch in the registry, and a code that only this process can compute. So a
// watch needs no memory for its token, and one lookup finds the watch. Nobody can guess the
// token of another watch, although the numbers are easy to guess.
type tokens struct{ key [sha256.Size]byte }

const (
	numberBytes = 8
	codeBytes   = 16 // 128 bits cannot be guessed
)

func newTokens() (t tokens) {
	_, _ = rand.Read(t.key[:]) // never fails
	return t
}

// of returns the token of the watch with a number.
func (t *tokens) of(number uint64) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, numberBytes+sha256.Size), number)
	return base64.RawURLEncoding.EncodeToString(t.sign(b))
}

// number returns the number of the watch with a token, or false if this process has not made
// the token.
func (t *tokens) number(token string) (uint64, bool) {
	var b [numberBytes + codeBytes]byte
	if base64.RawURLEncoding.DecodedLen(len(token)) != len(b) {
		return 0, false
	}
	if _, err := base64.RawURLEncoding.Decode(b[:], []byte(token)); err != nil {
		return 0, false
	}
	want := t.sign(append(make([]byte, 0, numberBytes+sha256.Size), b[:numberBytes]...))
	return binary.BigEndian.Uint64(b[:numberBytes]), hmac.Equal(want, b[:])
}

// sign appends the code of a number to the number.
func (t *tokens) sign(number []byte) []byte {
	h := hmac.New(sha256.New, t.key[:])
	_, _ = h.Write(number) // never fails
	return h.Sum(number)[:numberBytes+codeBytes]
}
