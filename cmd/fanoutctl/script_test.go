package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/natefinch/atomic"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

func TestMain(m *testing.M) {
	testscript.Main(hangups{m}, map[string]func(){"fanoutctl": main})
}

// hangups runs the tests in a process that does not ignore SIGHUP. Under nohup it would, and so would every
// command that a test starts: a shell cannot even trap a signal that was ignored when it started.
type hangups struct{ testscript.TestingM }

func (h hangups) Run() int {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // a caught signal has its default effect in children
	}
	return h.TestingM.Run()
}

// server starts a fanoutd with an embedded etcd for the duration of the test. Its resources are
// the given ones with the default codec, of which "history", "undo_history" and those of rollback have a history, "documents" and "papers" (JSON),
// "blobs" (raw), and "flags", which has validation rules, as that of rollback_rules has.
func server(t *testing.T, names ...string) (address string) {
	t.Helper()
	address, _, _ = encryptedServer(t, names...)
	return address
}

// flagRules are the validation rules of the resource "flags".
const flagRules = `
checks:
  - schema: {type: object, properties: {percent: {type: integer, maximum: 100}}}
    rules:
      - {rule: oldSelf == null || self.percent >= oldSelf.percent, message: must not shrink, path: /percent}
      - {rule: self != null || oldSelf.percent == 0, message: a flag that is on must stay, deletes: true}
`

// encryptedServer is like server, and also returns the keyset file and the address of the HTTP service.
func encryptedServer(t *testing.T, names ...string) (address, keyset, web string) {
	t.Helper()
	cfg := inprocess.Config(t)
	cfg.AdminListen = loopback.FreeAddress(t)
	cfg.KeysetFile = filepath.Join(t.TempDir(), "keys.json")
	content, _, err := crypt.Create()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfg.KeysetFile, content, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Resources = nil
	rules := filepath.Join(t.TempDir(), "flags.yaml")
	if err := os.WriteFile(rules, []byte(flagRules), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		r := config.NewResource(name)
		switch name {
		case "history", "undo_history", "copy":
			r.History = config.NewHistory()
		case "rollback", "rollback_large", "rollback_ttl":
			r.History = config.NewHistory()
			r.History.TTL = name == "rollback_ttl"
			r.Cache = false // old revisions are read from etcd, and gone after its compaction
		case "rollback_rules":
			r.History, r.ValidationFile = config.NewHistory(), rules
		}
		cfg.Resources = append(cfg.Resources, r)
	}
	for name, codec := range map[string]string{"documents": "json", "papers": "json", "blobs": "raw"} {
		r := config.NewResource(name)
		r.Codec = codec
		cfg.Resources = append(cfg.Resources, r)
	}
	flags := config.NewResource("flags")
	flags.ValidationFile = rules
	cfg.Resources = append(cfg.Resources, flags)
	return inprocess.Start(t, cfg).Address(), cfg.KeysetFile, cfg.AdminListen
}

// rotate adds a key to the keyset file, promotes it and returns its ID.
func rotate(keyset string) (id uint32, err error) {
	content, err := os.ReadFile(keyset)
	if err != nil {
		return 0, err
	}
	if content, id, err = crypt.Add(content); err != nil {
		return 0, err
	}
	if content, _, err = crypt.Promote(content, id); err != nil {
		return 0, err
	}
	return id, atomic.WriteFile(keyset, bytes.NewReader(content))
}

// The scripts in testdata run the command against a real server. Each script has its own
// resource, whose name is in $R. The server at $PROD has only that of copy.txtar. The additional commands are:
//
//	exits CODE COMMAND...   run a command and check its exit code
//	unhurried CODE PATTERN COMMAND...
//	                        run a command with more and more time until its stderr matches, and check its exit code
//	until FILE PATTERN      wait until the file exists and matches
//	rotate                  make the server encrypt with a new key
//	informer KEY | PATH/    run an informer of the key or the path until the script ends; its handler refuses the value "bad"
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range scripts {
		names = append(names, resourceOf(s))
	}
	address, keyset, web := encryptedServer(t, names...)
	prod := server(t, "copy")
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			for name, value := range map[string]string{
				"FANOUTCTL_SERVER": address,
				"PROD":             prod,
				"KEYSET":           keyset,
				"HTTP_ADDRESS":     web,
				"R":                resourceOf(filepath.Base(env.WorkDir)),
				"HOME":             env.WorkDir,
				"XDG_CONFIG_HOME":  filepath.Join(env.WorkDir, "config"),
				"TMPDIR":           env.WorkDir,
				"GORACE":           os.Getenv("GORACE"),
			} {
				env.Setenv(name, value)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "unhurried": unhurried, "until": until, "rotate": rotateKeys, "informer": runInformer},
	})
}

// resourceOf returns the resource of a script.
func resourceOf(script string) string {
	name := strings.TrimSuffix(filepath.Base(script), ".txtar")
	return strings.TrimPrefix(name, "script-")
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	wantExit(ts, want, args[1:])
}

// wantExit runs a command and checks its exit code.
func wantExit(ts *testscript.TestScript, want int, command []string) {
	err := ts.Exec(command[0], command[1:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("got exit code %d, want %d", got, want)
	}
}

// unhurried is for commands whose time is up: on a busy machine it may be up before the command knows why it waits.
func unhurried(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: unhurried CODE PATTERN COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	for limit := 500 * time.Millisecond; limit < poll.Patience; limit *= 2 {
		wantExit(ts, want, append(slices.Clone(args[2:]), "--timeout", limit.String()))
		if pattern.MatchString(ts.ReadFile("stderr")) {
			return
		}
	}
	ts.Fatalf("stderr does not match %s", pattern)
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until FILE PATTERN")
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	var text []byte
	if !eventually(func() bool {
		var err error
		text, err = os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && pattern.Match(text)
	}) {
		ts.Fatalf("%s does not match %s:\n%s", args[0], args[1], text)
	}
}

func rotateKeys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: rotate")
	}
	id, err := rotate(ts.Getenv("KEYSET"))
	ts.Check(err)
	if !eventually(func() bool {
		ts.Check(ts.Exec("fanoutctl", "resources", "-o", "json"))
		return strings.Contains(ts.ReadFile("stdout"), fmt.Sprintf(`"primaryKeyId": %d`, id))
	}) {
		ts.Fatalf("the server does not use key %d", id)
	}
}

// runInformer runs an informer of a key or a path until the script ends. Its handler reports an error for the
// value "bad".
func runInformer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: informer KEY | PATH/")
	}
	c, err := client.New(ts.Getenv("FANOUTCTL_SERVER"), client.WithSubscriber("strict", nil))
	ts.Check(err)
	scope := client.Key(args[0])
	if path, below := strings.CutSuffix(args[0], "/"); below {
		scope = client.Prefix(path)
	}
	inf := client.NewInformer(c.Resource(ts.Getenv("R")), client.ObjectDecoder(), scope)
	handle := func(i client.Item[*client.Object]) error {
		if string(i.Object.Value) == "bad" {
			return errors.New("the value is bad")
		}
		return nil
	}
	inf.AddHandler(client.Handler[*client.Object]{
		Add:    handle,
		Update: func(_, i client.Item[*client.Object]) error { return handle(i) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(ctx) }()
	ts.Defer(func() {
		cancel()
		if err := errors.Join(<-ended, c.Close()); !errors.Is(err, context.Canceled) {
			ts.Logf("the informer ended with %v", err)
		}
	})
	waiting, stop := context.WithTimeout(ctx, poll.Patience)
	defer stop()
	ts.Check(inf.WaitForSync(waiting))
}

// eventually polls a condition of another process, and reports whether it holds in time.
func eventually(holds func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), poll.Patience)
	defer cancel()
	return poll.Wait(ctx, holds)
}
