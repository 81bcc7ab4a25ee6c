// Package report makes tables and plots of what was measured.
package report
