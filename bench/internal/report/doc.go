// Package report makes tables and plots of records, and compares them with the goals.
package report
