package main

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/client"
)

// gRPC reports almost the same error for a server that closes the connection and for one
// that never responds.
func TestConnectionHints(t *testing.T) {
	const advice = `; set the server with --server, FANOUTCTL_SERVER or "fanoutctl context"`
	for failure, want := range map[string]string{
		"connection error: desc = \"error reading server preface: EOF\"":                                                                             `error reading server preface: EOF` + advice + "; the server may require TLS: try --tls",
		"connection error: desc = \"error reading server preface: raw-read tcp 127.0.0.1:41800->127.0.0.2:17420: use of closed network connection\"": "the server accepts connections but does not respond" + advice,
		"name resolver error: produced zero addresses":                                                                                               "no address found for this name" + advice,
	} {
		err := &client.Error{Code: codes.Unavailable, Message: "last connection error: " + failure}
		if got := (&tool{}).explain(exitUnavailable, err); !strings.HasSuffix(got, ": "+want) {
			t.Errorf("%s: got %q, want suffix %q", failure, got, want)
		}
	}
}

// Each reason of the server has one exit code, whatever the command: the one of the documentation.
func TestReasonsHaveTheDocumentedExitCodes(t *testing.T) {
	documented := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|[^|]*\| (.*) \|$`).FindAllStringSubmatch(documentation(t), -1) {
		exit, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		for _, reason := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(row[2], -1) {
			if _, twice := documented[reason[1]]; twice {
				t.Errorf("%s has two exit codes", reason[1])
			}
			documented[reason[1]] = exit
		}
	}
	errors, err := os.ReadFile("../../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| `([A-Z_]+)` \\| .* \\| (?:yes|no) \\|").FindAllStringSubmatch(string(errors), -1)
	if len(reasons) < 20 {
		t.Fatalf("found only %d reasons", len(reasons))
	}
	for _, r := range reasons {
		want, ok := documented[r[1]]
		if !ok {
			t.Errorf("%s has no exit code in docs/reference/fanoutctl.md", r[1])
			continue
		}
		failure := &client.Error{Code: codes.Code(code.Code_value[r[2]]), Reason: client.Reason(r[1]), Metadata: map[string]string{"key": "a"}}
		if got := exitCode(context.Background(), failure); got != want {
			t.Errorf("%s: got exit code %d, want %d", r[1], got, want)
		}
		delete(documented, r[1])
	}
	for reason := range documented {
		t.Errorf("there is no reason %s", reason)
	}
}
