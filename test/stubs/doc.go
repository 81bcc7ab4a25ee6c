// Package stubs tests the generated code of languages that have no client of their own: the commands and the
// subscriber of docs/clients/other.md.
package stubs
