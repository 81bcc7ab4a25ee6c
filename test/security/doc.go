// Package security tests which callers are accepted, and when they lose access. It uses
// whole servers, real certificates, tokens and JWTs, and replaces files while watches run.
package security
