package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/reload"
)

// Tokens are the bearer tokens of a token file. The file contains only their hashes, one
// per line:
//
//	NAME sha256:HEX GROUP,GROUP
//
// The groups are optional. Empty lines and lines that begin with # are ignored. Several
// lines may share a name, so that an old token stays valid while its replacement is
// rolled out.
type Tokens struct {
	known atomic.Pointer[map[digest]Identity]
}

// digest is the SHA-256 of a token. A plain hash is enough, because tokens are random
// and cannot be guessed. The time of a look-up reveals nothing, because a caller cannot
// choose the hash of the token it shows.
type digest [sha256.Size]byte

const (
	digestPrefix = "sha256:"

	// tokenPrefix begins every token, so that secret scanners can find leaked ones.
	tokenPrefix = "fanoutd_"

	// tokenBytes is the number of random bytes in a token.
	tokenBytes = 32
)

// LoadTokens reads a token file as one of files, which follows it.
func LoadTokens(path string, files *reload.Files) (*Tokens, error) {
	t := &Tokens{}
	err := files.Load(path, reload.Into(&t.known, func(content []byte) (*map[digest]Identity, error) {
		known, err := parseTokens(string(content))
		return &known, err
	}))
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return t, nil
}

// ReadIdentities returns the identities of all tokens of a file, in no particular order.
func ReadIdentities(path string) ([]Identity, error) {
	t, err := LoadTokens(path, reload.New(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	return slices.Collect(maps.Values(*t.known.Load())), nil
}

// find returns the pass for a token, or false if the token is unknown.
func (t *Tokens) find(token string) (Pass, bool) {
	key := digest(sha256.Sum256([]byte(token)))
	identity, ok := (*t.known.Load())[key]
	return Pass{Identity: identity, Recheck: func() error { return t.recheck(key, identity) }}, ok
}

// recheck returns an error unless the token still belongs to the same identity.
func (t *Tokens) recheck(key digest, then Identity) error {
	now, ok := (*t.known.Load())[key]
	if !ok {
		return errUnknownToken
	}
	if now.Name != then.Name || !slices.Equal(now.Groups, then.Groups) {
		return &RefusedError{Message: "the name or the groups of the token have changed; authenticate again", Fault: FaultChanged}
	}
	return nil
}

func parseTokens(text string) (map[digest]Identity, error) {
	known := map[digest]Identity{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		key, identity, err := parseToken(words)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if other, ok := known[key]; ok {
			return nil, fmt.Errorf("line %d: duplicate of the token of %s above", number, other.Name)
		}
		known[key] = identity
	}
	return known, nil
}

func parseToken(words []string) (digest, Identity, error) {
	if len(words) < 2 || len(words) > 3 {
		return digest{}, Identity{}, errors.New(`must be "NAME sha256:HEX" or "NAME sha256:HEX GROUP,GROUP"`)
	}
	identity := Identity{Name: words[0], Method: Token}
	text, ok := strings.CutPrefix(words[1], digestPrefix)
	sum, err := hex.DecodeString(text)
	if !ok || err != nil || len(sum) != sha256.Size {
		// The message does not quote the word: it may be a token.
		return digest{}, Identity{}, fmt.Errorf("the second word must be %q and %d hexadecimal digits", digestPrefix, 2*sha256.Size)
	}
	if len(words) == 3 {
		identity.Groups = strings.Split(words[2], ",")
	}
	return digest(sum), identity, identity.Validate()
}

// NewToken returns a new random token and its line for the token file. The token cannot
// be derived from the line.
func NewToken(name string, groups []string) (token, line string, err error) {
	random := make([]byte, tokenBytes)
	_, _ = rand.Read(random) // never fails
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(random)
	sum := sha256.Sum256([]byte(token))
	line = name + " " + digestPrefix + hex.EncodeToString(sum[:])
	if len(groups) > 0 {
		line += " " + strings.Join(groups, ",")
	}
	if err := (Identity{Name: name, Groups: groups}).Validate(); err != nil {
		return "", "", err
	}
	// A name with a space would be parsed differently.
	known, err := parseTokens(line)
	if err != nil || known[sum].Name != name || !slices.Equal(known[sum].Groups, groups) {
		return "", "", fmt.Errorf("%q: names and groups must not contain spaces, groups must not contain commas, and the name must not begin with #", name)
	}
	return token, line, nil
}
