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
	for preface, want := range map[string]string{
		"EOF": "the server may require TLS: try --tls",
		"raw-read tcp 127.0.0.1:41800->127.0.0.2:17420: use of closed network connection": "the server accepts connections but does not respond",
	} {
		err := &client.Error{Code: codes.Unavailable, Message: `last connection error: connection error: desc = "error reading server preface: ` + preface + `"`}
		if got := (&tool{}).explain(exitUnavailable, err); !strings.HasSuffix(got, "; "+want) {
			t.Errorf("%s: got %q, want suffix %q", preface, got, want)
		}
	}
}
