// Package readme does what README.md says, as a new user would: it runs every
// command of it and compares what comes out with what is printed there.
package readme
