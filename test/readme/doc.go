// Package readme follows README.md and docs/getting-started.md as a new user would: it runs every
// command and compares the output with the printed one.
package readme
