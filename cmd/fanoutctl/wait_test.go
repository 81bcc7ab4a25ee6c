package main

import (
	"context"
	"encoding/json"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// gateServer answers WatchApplied with what the test says. Every Put gets revision 7.
type gateServer struct {
	fanoutv1.UnimplementedAdminServiceServer
	fanoutv1.UnimplementedStoreServiceServer
	address string

	mu      sync.Mutex                     // guards what follows
	answer  *fanoutv1.WatchAppliedResponse // nil: permission denied
	request *fanoutv1.WatchAppliedRequest  // the last one
	changed chan struct{}                  // closed when answer changes
}

// startGate starts a server for the duration of the test.
func startGate(t *testing.T, answer *fanoutv1.WatchAppliedResponse) *gateServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &gateServer{address: listener.Addr().String(), answer: answer, changed: make(chan struct{})}
	srv := grpc.NewServer()
	fanoutv1.RegisterAdminServiceServer(srv, s)
	fanoutv1.RegisterStoreServiceServer(srv, s)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *gateServer) WatchApplied(req *fanoutv1.WatchAppliedRequest, out grpc.ServerStreamingServer[fanoutv1.WatchAppliedResponse]) error {
	for {
		s.mu.Lock()
		answer, changed := s.answer, s.changed
		s.request = proto.CloneOf(req)
		s.mu.Unlock()
		if answer == nil {
			st, err := status.New(codes.PermissionDenied, "not an operator").WithDetails(&errdetails.ErrorInfo{Domain: "fanoutd.github.io", Reason: "PERMISSION_DENIED"})
			if err != nil {
				return err
			}
			return st.Err()
		}
		if err := out.Send(answer); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
}

func (s *gateServer) Put(context.Context, *fanoutv1.PutRequest) (*fanoutv1.PutResponse, error) {
	return &fanoutv1.PutResponse{Revision: 7}, nil
}

func (s *gateServer) set(answer *fanoutv1.WatchAppliedResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
	close(s.changed)
	s.changed = make(chan struct{})
}

// scope returns the scope of the last request.
func (s *gateServer) scope() *fanoutv1.Scope {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.request.GetScope()
}

// applied is an answer without failures. Each pending watch has applied revision 5.
func applied(watches, applied int64, pending ...string) *fanoutv1.WatchAppliedResponse {
	m := &fanoutv1.WatchAppliedResponse{Watches: watches, Applied: applied}
	for _, name := range pending {
		m.Pending = append(m.Pending, &fanoutv1.WatcherStatus{
			Id: "id-" + name, Peer: "10.0.0.1:2", Since: timestamppb.New(time.Now().Add(-time.Hour)),
			Subscriber: &fanoutv1.Subscriber{Instance: name, Labels: map[string]string{"zone": "eu"}},
			Applied:    &fanoutv1.Position{Epoch: "e", Revision: 5}, AppliedLag: durationpb.New(3 * time.Second),
		})
	}
	return m
}

// at sets the newest revision of an answer.
func at(revision int64, m *fanoutv1.WatchAppliedResponse) *fanoutv1.WatchAppliedResponse {
	m.Position = &fanoutv1.Position{Epoch: "e", Revision: revision}
	return m
}

// unreporting adds a watch that does not report.
func unreporting(m *fanoutv1.WatchAppliedResponse, name string) *fanoutv1.WatchAppliedResponse {
	m.NotReporting++
	m.NotReportingWatchers = append(m.NotReportingWatchers, &fanoutv1.WatcherStatus{
		Id: "id-" + name, Peer: "10.0.0.1:2", Since: timestamppb.Now(), Subscriber: &fanoutv1.Subscriber{Instance: name},
	})
	return m
}

// earlier makes the error of a watch one that does not count.
func earlier(m *fanoutv1.WatchAppliedResponse) *fanoutv1.WatchAppliedResponse {
	m.Failed = 0
	return m
}

// failing is an answer with a watch that has failed.
func failing(watches, count int64) *fanoutv1.WatchAppliedResponse {
	m := applied(watches, count, "web-1")
	m.Failed = 1
	m.Pending[0].Error, m.Pending[0].ErrorTime = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: "rps is negative"}, timestamppb.Now()
	return m
}

// Each end of a wait has its exit code. The watches that have not applied the revision are on
// standard output, everything else is on standard error.
func TestWaitExitCodes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const header = "ID +INSTANCE +PEER +APPLIED +LAG +AGE +ERROR"
	for name, c := range map[string]struct {
		answer         *fanoutv1.WatchAppliedResponse
		args           string
		code           int
		result         string // of -o json
		stdout, stderr string // of tables: patterns
	}{
		"reached":        {applied(2, 2), "", exitOK, "reached", `^$`, `^2 of 2 watches have applied revision 7\.\n$`},
		"quorum":         {applied(4, 3, "web-1"), "--quorum 75%", exitOK, "reached", `^` + header + "\nid-web-1 +web-1 +10\\.0\\.0\\.1:2 +5 +3\\.0s +60m +-\n$", `^3 of 4 watches have applied revision 7\.\n$`},
		"timed out":      {applied(2, 1, "web-1"), "--timeout 5s", exitTimeout, "timed-out", `\nid-web-1 `, `^fanoutctl: timed out: 1 of 2 watches have applied revision 7, want 2; not applied by web-1\n$`},
		"refused":        {failing(2, 1), "", exitRefused, "refused", ` rps is negative \(InvalidArgument\)\n$`, `^fanoutctl: 1 watch cannot apply revision 7: web-1: rps is negative\n$`},
		"tolerated":      {failing(2, 1), "--tolerate 1", exitOK, "reached", `\nid-web-1 `, `^1 of 2 watches have applied revision 7, 1 failed\.\n$`},
		"too few":        {applied(2, 2), "--min-watches 3 --timeout 5s", exitTimeout, "timed-out", `^$`, `want 3\n$`},
		"none":           {applied(0, 0), "--timeout 5s", exitTimeout, "timed-out", `^$`, `^fanoutctl: timed out: 0 of 0 watches have applied revision 7, want 1; no watch that reports concerns path "shop" \(use --min-watches 0 if there need be none\)\n$`},
		"none selected":  {applied(0, 0), "--timeout 5s --subscribers app=cart --instance x", exitTimeout, "timed-out", `^$`, ` concerns path "shop" and subscribers "app=cart" and instance "x" `},
		"none needed":    {applied(0, 0), "--min-watches 0", exitOK, "reached", `^$`, `^0 of 0 watches have applied revision 7\.\n$`},
		"future":         {at(5, applied(1, 0, "web-1")), "--timeout 5s", exitTimeout, "timed-out", `\nid-web-1 `, `revision 7 does not exist yet, or no server has received it: the newest is 5; not applied by web-1\n$`},
		"future, none":   {at(5, applied(0, 0)), "--min-watches 0", exitOK, "reached", `^$`, `^0 of 0 watches have applied revision 7; revision 7 does not exist yet, `},
		"not reporting":  {unreporting(applied(1, 1), "page"), "", exitOK, "reached", `\nid-page .* does not report, and does not count\n$`, `^1 of 1 watch has applied revision 7, 1 does not report\.\n$`},
		"earlier error":  {earlier(failing(2, 1)), "--quorum 50%", exitOK, "reached", ` does not count: rps is negative \(InvalidArgument\)\n$`, `^1 of 2 watches have applied revision 7\.\n$`},
		"invalid labels": {nil, "--subscribers app=(", exitUsage, "", `^$`, `--subscribers: `},
		"permission":     {nil, "", exitDenied, "", `^$`, `denied the request: not an operator; set credentials`},
		"invalid quorum": {nil, "--quorum 99", exitUsage, "", `^$`, `want a percentage above 0% and up to 100%, such as 99%`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startGate(t, c.answer)
			args := append([]string{"wait", "config", "shop/", "--revision", "7"}, strings.Fields(c.args)...)
			out, errs, code := runWithExitCode(t, s.address, args...)
			wantMatch(t, "standard output", out, c.stdout)
			wantMatch(t, "standard error", withoutProgress(errs), c.stderr)
			if code != c.code {
				t.Errorf("got exit code %d, want %d", code, c.code)
			}
			if c.result == "" {
				return
			}
			if got := s.scope().GetPrefix(); got != "shop" {
				t.Errorf("got prefix %q", got)
			}
			out, _, code = runWithExitCode(t, s.address, append(args, "-o", "json")...)
			var shown struct {
				Result, Prefix                       string
				Revision, Watches, Applied, Required int64
				Pending                              []struct {
					Instance string
					Labels   map[string]string
					Applied  struct{ Revision int64 }
					Error    *struct{ Code, Message string }
				}
				Servers []struct {
					Server              string
					Answered, Answering bool
				}
			}
			if err := json.Unmarshal([]byte(out), &shown); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if code != c.code || shown.Result != c.result || shown.Prefix != "shop" || shown.Revision != 7 || shown.Watches != c.answer.GetWatches() || shown.Applied != c.answer.GetApplied() {
				t.Errorf("exit code %d, got %+v", code, shown)
			}
			if len(shown.Servers) != 1 || shown.Servers[0].Server != s.address || !shown.Servers[0].Answering {
				t.Errorf("got the servers %+v", shown.Servers)
			}
			if len(shown.Pending) != len(c.answer.GetPending()) {
				t.Fatalf("got the pending watches %+v", shown.Pending)
			}
			for _, p := range shown.Pending {
				if p.Instance != "web-1" || p.Labels["zone"] != "eu" || p.Applied.Revision != 5 || (p.Error != nil) != (c.answer.GetPending()[0].GetError() != nil) {
					t.Errorf("got %+v", p)
				}
			}
		})
	}
}

// What a subscriber reports is shown as one line of text, whatever it has in it.
func TestWaitShowsStrangeErrors(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"rps\n\x1b[31mis\u009b2J bad\x07": "web-1: rps [31mis 2J bad",
		"":                                "web-1: InvalidArgument",
	} {
		answer := failing(2, 1)
		answer.Pending[0].Error.Message = message
		out, errs, code := runWithExitCode(t, startGate(t, answer).address, "wait", "config", "--revision", "7")
		if !strings.HasSuffix(errs, "1 watch cannot apply revision 7: "+want+"\n") || code != exitRefused {
			t.Errorf("%q: exit code %d: %q", message, code, errs)
		}
		if strings.ContainsAny(out+errs, "\x1b\u009b\x07") {
			t.Errorf("%q: control characters in %q and %q", message, out, errs)
		}
	}
}

// A server that is down is reported once, and only allowed if the user says so.
func TestWaitWithAServerThatIsDown(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const down = "127.0.0.1:1"
	up := startGate(t, applied(2, 2))
	both := down + "," + up.address
	_, errs, code := runWithExitCode(t, both, "wait", "config", "--revision", "7", "--timeout", "5s")
	wantMatch(t, "standard error", withoutProgress(errs), `^fanoutctl: cannot reach 127\.0\.0\.1:1: .*; retrying\n`+
		`fanoutctl: timed out: 2 of 2 watches have applied revision 7, no answer from 127\.0\.0\.1:1; use --allow-missing-servers .*\n$`)
	if code != exitTimeout {
		t.Errorf("got exit code %d, want %d", code, exitTimeout)
	}
	_, errs, code = runWithExitCode(t, both, "wait", "config", "--revision", "7", "--allow-missing-servers")
	wantMatch(t, "standard error", withoutProgress(errs), `\n2 of 2 watches have applied revision 7, no answer from 127\.0\.0\.1:1\.\n$`)
	if code != exitOK {
		t.Errorf("got exit code %d, want 0", code)
	}
	// Some server must answer. The flag, which does not help then, is not suggested.
	_, errs, code = runWithExitCode(t, down, "wait", "config", "--revision", "7", "--allow-missing-servers", "--timeout", "5s")
	wantMatch(t, "standard error", withoutProgress(errs), `^fanoutctl: cannot reach 127\.0\.0\.1:1: .*; retrying\n`+
		`fanoutctl: timed out: 0 of 0 watches have applied revision 7, want 1, no answer from 127\.0\.0\.1:1\n$`)
	if code != exitTimeout {
		t.Errorf("got exit code %d, want %d", code, exitTimeout)
	}
	// The tables of several servers have a column for the server.
	other := startGate(t, applied(1, 0, "web-1"))
	out, _, _ := runWithExitCode(t, up.address+","+other.address, "wait", "config", "--revision", "7", "--timeout", "5s")
	if secondCells(out, "id-web-1") != other.address {
		t.Errorf("the watch is not on %s:\n%s", other.address, out)
	}
}

// The server that refuses is named.
func TestWaitNamesTheServerThatRefuses(t *testing.T) {
	t.Parallel()
	up, refusing := startGate(t, applied(1, 0, "web-1")), startGate(t, nil)
	_, errs, code := runWithExitCode(t, up.address+","+refusing.address, "wait", "config", "--revision", "7")
	if !strings.HasPrefix(withoutProgress(errs), "fanoutctl: "+refusing.address+" denied the request: ") || code != exitDenied {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// put prints only the revision on standard output, and then waits for the watches of the key.
func TestPutWait(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	s := startGate(t, applied(2, 2))
	for name, c := range map[string]struct {
		answer *fanoutv1.WatchAppliedResponse
		args   string
		code   int
		stderr string
	}{
		"reached":   {applied(2, 2), "--wait", exitOK, `^2 of 2 watches have applied revision 7\.\n$`},
		"quorum":    {applied(2, 1, "web-1"), "--wait --quorum 50%", exitOK, `^1 of 2 .*\nID +INSTANCE .*\nid-web-1 .*\n$`},
		"refused":   {failing(2, 1), "--wait", exitRefused, `^ID +INSTANCE .*\nid-web-1 .*\nfanoutctl: 1 watch cannot apply revision 7: web-1: rps is negative\n$`},
		"timed out": {applied(2, 1, "web-1"), "--wait --timeout 5s", exitTimeout, `\nfanoutctl: timed out: 1 of 2 `},
		"denied":    {nil, "--wait", exitDenied, `^fanoutctl: revision 7 was written, but waiting for it failed: .* denied the request: not an operator`},
	} {
		s.set(c.answer)
		out, errs, code := runWithExitCode(t, s.address, append([]string{"put", "config", "shop/limits", "1"}, strings.Fields(c.args)...)...)
		if out != "7\n" || code != c.code {
			t.Errorf("%s: exit code %d, want %d: %q, %s", name, code, c.code, out, errs)
		}
		wantMatch(t, name, withoutProgress(errs), c.stderr)
	}
	if got := s.scope().GetKey(); got != "shop/limits" {
		t.Errorf("got key %q", got)
	}
	// A mistake is reported before anything is written.
	for args, want := range map[string]string{
		"--quorum 50%":               "--quorum requires --wait",
		"--tolerate 1":               "--tolerate requires --wait",
		"--subscribers app=x":        "--subscribers requires --wait",
		"--wait --subscribers app=(": "--subscribers: ",
		"--wait --instance " + strings.Repeat("x", 254): "--instance has more than 253 bytes",
		"--require-all":            "--require-all requires --wait",
		"--allow-missing-servers":  "--allow-missing-servers requires --wait",
		"--wait --tolerate -1":     "--tolerate must not be negative",
		"--wait --min-watches -1":  "--min-watches must not be negative",
		"--wait --settle -1s":      "--settle must not be negative",
		"--wait --timeout -1s":     "--timeout must not be negative",
		"--wait --quorum 100.001%": "want a percentage",
		"--wait --quorum 0%":       "want a percentage",
	} {
		out, errs, code := runWithExitCode(t, s.address, append([]string{"put", "config", "shop/limits", "1"}, strings.Fields(args)...)...)
		if out != "" || code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d: %q, %s", args, code, out, errs)
		}
	}
}

// On a terminal, a wait shows its progress. Ctrl-C ends it.
func TestWaitShowsItsProgress(t *testing.T) {
	t.Parallel()
	s := startGate(t, applied(4, 1, "a", "b", "c"))
	c := inTerminal(t, s.address, 80, nil, "wait", "config", "--revision", "7")
	c.await(`1 of 4 applied +25% `)
	s.set(applied(4, 3, "c"))
	c.await(`3 of 4 applied +75% `)
	s.set(applied(4, 4))
	c.ends(exitOK)
	c.await(`4 of 4 applied +100% .*\n\s*4 of 4 watches have applied revision 7\.`)

	s.set(applied(4, 3, "c"))
	c = inTerminal(t, s.address, 80, nil, "wait", "config", "--revision", "7")
	c.await(`3 of 4 applied`)
	c.press("\x03")
	c.ends(exitInterrupted)
	c.await(`fanoutctl: interrupted`)
}

// withoutProgress removes the lines that a wait prints until it ends.
func withoutProgress(errs string) string {
	return regexp.MustCompile(`(?m)^waiting: .*\n`).ReplaceAllString(errs, "")
}

// wantMatch checks that a text matches a pattern.
func wantMatch(t *testing.T, what, text, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("%s does not match %q:\n%s", what, pattern, text)
	}
}
