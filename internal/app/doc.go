// Package app puts the parts of the server together: what the configuration
// says is built bottom up, run, and taken down in reverse.
package app
