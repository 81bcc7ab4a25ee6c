package packaging

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func TestDockerfile(t *testing.T) {
	parsed, err := parser.Parse(bytes.NewReader(read(t, "deploy/docker/Dockerfile")))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range parsed.Warnings {
		t.Errorf("%s", w.Short)
	}
	warn := func(rule, description, _, message string, _ []parser.Range) {
		t.Errorf("%s: %s (%s)", rule, message, description)
	}
	stages, arguments, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{Warn: warn, ReturnAsError: true}))
	if err != nil {
		t.Fatal(err)
	}
	final := stages[len(stages)-1]
	if final.BaseName != "scratch" {
		t.Errorf("got base image %s", final.BaseName)
	}
	user := ""
	for _, c := range final.Commands {
		if u, ok := c.(*instructions.UserCommand); ok {
			user = u.User
		}
	}
	if user == "" || strings.HasPrefix(user, "0") || strings.HasPrefix(user, "root") {
		t.Errorf("got user %q", user)
	}
	// The image must have the project's Go version: otherwise its binaries differ.
	version := run(t, root, nil, "go", "env", "GOVERSION")
	if !slices.ContainsFunc(arguments, func(a instructions.ArgCommand) bool {
		return a.Args[0].Key == "GO_VERSION" && "go"+a.Args[0].ValueString() == strings.TrimSpace(version)
	}) {
		t.Errorf("got another Go version than %s", version)
	}
}
