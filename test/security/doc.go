// Package security tests who gets in, and who no longer does, with whole servers, real
// certificates, tokens and JWTs, and files that are replaced while watches go on.
package security
