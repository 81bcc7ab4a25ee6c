package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The usage line defines the arguments of a command.
func TestUsageLinesAreTheGrammarOfArguments(t *testing.T) {
	for use, c := range map[string]struct {
		names  string
		needed int
		most   int // -1: any number
	}{
		"version":                      {"", 0, 0},
		"get RESOURCE KEY":             {"RESOURCE KEY", 2, 2},
		"watchers [RESOURCE]":          {"RESOURCE", 0, 1},
		"list RESOURCE [PATH]":         {"RESOURCE PATH", 1, 2},
		"put RESOURCE [VALUE | --f F]": {"RESOURCE VALUE", 1, 2},
		"delete RESOURCE KEY... | RESOURCE [PATH] --recursive": {"RESOURCE KEY...", 2, -1},
	} {
		cmd := &cobra.Command{Use: use}
		names, needed := argumentsOf(cmd)
		if !slices.Equal(names, strings.Fields(c.names)) || needed != c.needed {
			t.Errorf("%s: got %v, of which %d are needed", use, names, needed)
		}
		for n := range 5 {
			err := checkArguments(cmd, slices.Repeat([]string{"x"}, n))
			if want := n >= c.needed && (n <= c.most || c.most < 0); (err == nil) != want {
				t.Errorf("%s: got %v for %d arguments", use, err, n)
			}
		}
	}
}

// Completion knows the names of all arguments.
func TestArgumentsCanBeCompleted(t *testing.T) {
	known := []string{"RESOURCE", "KEY", "KEY...", "PATH", "NAME", "ID", "VALUE", "SOURCE", "FILE", "FILE...", "TARGET", "MEMBER", "ADDRESS"}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		names, _ := argumentsOf(c)
		for _, name := range names {
			if c.ValidArgsFunction != nil && !slices.Contains(known, name) {
				t.Errorf("%s: the argument %s is unknown", c.CommandPath(), name)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(newTool(nil, nil, nil, nil)))
}

// A negative number is refused wherever a flag is a number.
func TestNumbersAreNotNegative(t *testing.T) {
	for args, want := range map[string]string{
		"list config --limit -1":                "--limit must not be negative",
		"put config a 1 --ttl -1s":              "--ttl must not be negative",
		"watch config --delay -1s":              "--delay must not be negative",
		"import config . --retry -5m":           "--retry must not be negative",
		"bench config --watchers -1":            "--watchers must not be negative",
		"context list --timeout -1s":            "--timeout must not be negative",
		"get config a --if-revision -1":         "unknown flag",
		"txn config --check a=-1":               "want key=revision",
		"delete config a --if-revision 0":       "--if-revision must be at least 1",
		"wait config --revision 1 --settle=-1s": "--settle must not be negative",
	} {
		var errs strings.Builder
		code := run(t.Context(), strings.Fields(args), []string{"HOME=" + t.TempDir()}, strings.NewReader(""), new(strings.Builder), &errs)
		if code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: got exit code %d and %q, want %q", args, code, errs.String(), want)
		}
	}
}
