// Package readme follows README.md and other pages as a new user would: it runs every command and compares the
// output with the printed one. test/rules lists the pages.
package readme
