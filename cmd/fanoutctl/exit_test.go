package main

import (
	"strings"
	"testing"

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
