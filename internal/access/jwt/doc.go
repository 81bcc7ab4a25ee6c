// Package jwt verifies JSON Web Tokens of one issuer for one audience. The keys are
// read from a file or fetched from the issuer through OpenID Connect discovery.
//
// [Open] returns a [Verifier]. Its keys are in memory, and [Verifier.Run] and [reload.Files] keep them up to date, so
// [Verifier.Verify] normally waits for nothing. Only a token that no known key fits can
// make it wait for the issuer, and only once in ten seconds.
//
// go-oidc checks signatures and claims; go-jose parses the keys.
package jwt
