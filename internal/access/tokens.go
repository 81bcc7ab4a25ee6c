package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/reload"
)

// Tokens are the bearer tokens that a file names. The file has their hashes only, one
// in a line, with spaces between:
//
//	NAME sha256:HEX GROUP,GROUP
//
// The groups may be left out. Empty lines, and those that begin with #, say nothing.
// Several lines may have the same name, so that a token can be replaced without haste.
type Tokens struct {
	file    *reload.File
	changed func() // of the goroutine of Run; nil before
	known   atomic.Pointer[map[digest]Identity]
}

// digest is the SHA-256 of a token. A plain hash does because tokens are random:
// there is nothing to guess. A look-up by it takes no time that would tell anything,
// because nobody can choose the hash of what they show.
type digest [sha256.Size]byte

const (
	digestPrefix = "sha256:"

	// tokenPrefix is what tokens begin with, for programs that search for secrets
	// where they should not be.
	tokenPrefix = "fanoutd_"

	// tokenBytes is how much chance is in a token.
	tokenBytes = 32
)

// LoadTokens reads the file.
func LoadTokens(path string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{}
	var err error
	if t.file, err = reload.Load(path, log, t.use); err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return t, nil
}

// Run follows the file until ctx is done, and calls changed after each change.
func (t *Tokens) Run(ctx context.Context, changed func()) {
	t.changed = changed
	t.file.Run(ctx)
}

func (t *Tokens) use(content []byte) error {
	known, err := parseTokens(string(content))
	if err != nil {
		return err
	}
	t.known.Store(&known)
	if t.changed != nil {
		t.changed()
	}
	return nil
}

// find returns what a token is worth, or false where it is not known.
func (t *Tokens) find(token string) (Pass, bool) {
	key := digest(sha256.Sum256([]byte(token)))
	identity, ok := (*t.known.Load())[key]
	return Pass{Identity: identity, check: func() error { return t.still(key, identity) }}, ok
}

// still returns an error unless a token is known and means what it meant.
func (t *Tokens) still(key digest, then Identity) error {
	now, ok := (*t.known.Load())[key]
	if !ok {
		return errUnknownToken
	}
	if now.Name != then.Name || !slices.Equal(now.Groups, then.Groups) {
		return &RefusedError{Message: "the token now has another name or other groups, show it again"}
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
			return nil, fmt.Errorf("line %d: the token is that of %s above, too", number, other.Name)
		}
		known[key] = identity
	}
	return known, nil
}

func parseToken(words []string) (digest, Identity, error) {
	if len(words) < 2 || len(words) > 3 {
		return digest{}, Identity{}, errors.New(`must be a name, "sha256:" with the hash of a token, and groups with commas between them, or none`)
	}
	identity := Identity{Name: words[0], Method: Token}
	text, ok := strings.CutPrefix(words[1], digestPrefix)
	sum, err := hex.DecodeString(text)
	if !ok || err != nil || len(sum) != sha256.Size {
		// What stands there instead may be a token.
		return digest{}, Identity{}, fmt.Errorf("the second word must be %q and %d hexadecimal digits", digestPrefix, 2*sha256.Size)
	}
	if len(words) == 3 {
		identity.Groups = strings.Split(words[2], ",")
	}
	return digest(sum), identity, identity.Validate()
}

// NewToken makes a token for a name, and the line that makes it known. Nobody can get
// the one from the other.
func NewToken(name string, groups []string) (token, line string, err error) {
	chance := make([]byte, tokenBytes)
	_, _ = rand.Read(chance) // it never fails
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(chance)
	sum := sha256.Sum256([]byte(token))
	line = name + " " + digestPrefix + hex.EncodeToString(sum[:])
	if len(groups) > 0 {
		line += " " + strings.Join(groups, ",")
	}
	if err := (Identity{Name: name, Groups: groups}).Validate(); err != nil {
		return "", "", err
	}
	// A name with a space would be read as something else.
	known, err := parseTokens(line)
	if err != nil || known[sum].Name != name || !slices.Equal(known[sum].Groups, groups) {
		return "", "", fmt.Errorf("%q: names and groups must have no spaces, groups no commas, and the name must not begin with #", name)
	}
	return token, line, nil
}
