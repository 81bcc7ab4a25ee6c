// Package report makes tables and drawings of what was measured, and says which goals it
// reaches.
package report
