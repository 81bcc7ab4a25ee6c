package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func documentation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/fanoutctl.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The documentation lists all visible commands, settings and exit codes, and no others.
func TestDocumentationIsComplete(t *testing.T) {
	text := documentation(t)
	tl := newTool(nil, nil, nil, nil)
	root := rootCommand(tl)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "help" && !c.Hidden && !strings.Contains(text, "| `"+c.Name()) {
			t.Errorf("command %s is not documented", c.Name())
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+)").FindAllStringSubmatch(text, -1) {
		known := slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == m[1] })
		section := strings.Contains(text[:strings.Index(text, m[0])], "\n## ")
		if !known && !section {
			t.Errorf("documented command %s does not exist", m[1])
		}
	}
	for _, s := range settings {
		if row := "| `--" + s.name + "` | `" + variableOf(s.name) + "` |"; !strings.Contains(text, row) {
			t.Errorf("missing row %s", row)
		}
	}
	var codes []string
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(text, -1) {
		codes = append(codes, m[1])
	}
	var all []string
	for _, code := range []int{exitOK, exitFailed, exitUsage, exitNotFound, exitConflict, exitUnavailable, exitDenied, exitTimeout, exitPartial, exitRefused, exitRolledBack, exitNotRestored, exitInterrupted} {
		all = append(all, strconv.Itoa(code))
	}
	if !slices.Equal(codes, all) {
		t.Errorf("documented exit codes: got %v, want %v", codes, all)
	}
}

// The flags in the documentation exist.
func TestDocumentedFlagsExist(t *testing.T) {
	root := rootCommand(newTool(nil, nil, nil, nil))
	known := map[string]bool{"help": true, "init": true} // that of docker run
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, word := range regexp.MustCompile(`--[a-z-]+`).FindAllString(c.Flags().FlagUsages()+c.PersistentFlags().FlagUsages(), -1) {
			known[strings.TrimPrefix(word, "--")] = true
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	for _, m := range regexp.MustCompile("`?--([a-z][a-z-]*)").FindAllStringSubmatch(documentation(t), -1) {
		if !known[m[1]] {
			t.Errorf("documented flag --%s does not exist", m[1])
		}
	}
}

// The placeholders of flags name what they stand for, not its type in Go, and every command and flag
// explains itself.
func TestHelpIsForUsers(t *testing.T) {
	root := rootCommand(newTool(nil, nil, nil, nil))
	types := []string{"string", "strings", "stringArray", "stringToString", "int", "int32", "int64", "uint", "uint32", "float", "long"}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: its summary is %q", c.CommandPath(), c.Short)
		}
		check := func(f *pflag.Flag) {
			placeholder, usage := pflag.UnquoteUsage(f)
			if slices.Contains(types, placeholder) || usage == "" || f.DefValue == "[]" && !strings.HasSuffix(f.Value.Type(), "Array") {
				t.Errorf("%s --%s %s %q (default %s)", c.CommandPath(), f.Name, placeholder, usage, f.DefValue)
			}
		}
		c.LocalFlags().VisitAll(check)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// The fanoutctl commands of all pages have existing commands and flags, and as many arguments as they take.
func TestDocumentedCommandsParse(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"tasks", "reference", "clients"} {
		more, err := filepath.Glob("../../docs/" + folder + "/*.md")
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, more...)
	}
	checked := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^(?:    )?(?:\$ )?(?:bin/)?fanoutctl ((?:[^\\\n]|\\\n)+)$`).FindAllStringSubmatch(string(text), -1) {
			root := rootCommand(newTool(nil, nil, nil, nil))
			root.InitDefaultCompletionCmd()
			c, rest, err := root.Find(words(m[1]))
			if err == nil && c == root {
				err = errors.New("unknown command")
			}
			if err == nil {
				err = c.ParseFlags(rest)
			}
			if err == nil {
				err = c.ValidateArgs(c.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: fanoutctl %s: %v", page, m[1], err)
			}
			checked++
		}
	}
	if checked < 30 {
		t.Errorf("found only %d commands", checked)
	}
}

// words splits a command at spaces outside of quotes. The command ends where the shell does something else.
func words(command string) []string {
	var all []string
	for _, word := range regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`).FindAllString(strings.ReplaceAll(command, "\\\n", " "), -1) {
		if strings.ContainsAny(word[:1], "|>&#") {
			break
		}
		all = append(all, strings.NewReplacer("'", "", `"`, "").Replace(word))
	}
	return all
}
