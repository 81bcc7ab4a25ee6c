// Package readme follows README.md, docs/getting-started.md and docs/reference/http.md as a new user would: it runs every
// command and compares the output with the printed one.
package readme
