package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"fanoutd": main})
}

// The scripts in testdata run the command. route.binpb in their directory is the descriptor
// set of acme.v1.Route.
func TestScripts(t *testing.T) {
	set, err := os.ReadFile("../../internal/object/testdata/route.binpb")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			return os.WriteFile(filepath.Join(env.WorkDir, "route.binpb"), set, 0o600)
		},
	})
}
