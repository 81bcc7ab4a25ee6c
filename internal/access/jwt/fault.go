package jwt

import (
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/fanoutd/fanoutd/internal/access"
)

// The errors of go-oidc have no types. A test makes sure that these are the beginnings of their
// texts. A wrong fault misleads only readers of the log.
var faults = []struct {
	text  string
	fault access.Fault
}{
	{"oidc: malformed jwt", access.FaultMalformed},
	{"failed to verify signature", access.FaultSignature},
	{"oidc: id token issued by a different provider", access.FaultIssuer},
	{"oidc: expected audience", access.FaultAudience},
	{"oidc: current time", access.FaultNotYet},
}

// faultOf returns why go-oidc refuses a token.
func faultOf(err error, token string, keys *keySet) access.Fault {
	for _, f := range faults {
		switch {
		case !strings.HasPrefix(err.Error(), f.text):
		case f.fault == access.FaultSignature && namesUnknownKey(token, keys):
			return access.FaultUnknownKey
		default:
			return f.fault
		}
	}
	return access.FaultClaims
}

// namesUnknownKey reports whether a token names the id of a key that the issuer does not have.
func namesUnknownKey(token string, keys *keySet) bool {
	var all []jose.SignatureAlgorithm
	for _, algorithm := range algorithms {
		all = append(all, jose.SignatureAlgorithm(algorithm))
	}
	parsed, err := jose.ParseSignedCompact(token, all)
	if err != nil || len(parsed.Signatures) == 0 {
		return false
	}
	id := parsed.Signatures[0].Header.KeyID
	return id != "" && !keys.ids[id]
}
