package main

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/client"
)

// What gRPC says of a server that ends the connection and of one that is silent is almost
// the same.
func TestWhoIsSilentIsNotTakenForTLS(t *testing.T) {
	for preface, want := range map[string]string{
		"EOF": "it may speak TLS: --tls",
		"raw-read tcp 127.0.0.1:41800->127.0.0.2:17420: use of closed network connection": "it takes connections, but says nothing",
	} {
		err := &client.Error{Code: codes.Unavailable, Message: `last connection error: connection error: desc = "error reading server preface: ` + preface + `"`}
		if got := (&tool{}).explain(exitUnavailable, err); !strings.HasSuffix(got, "; "+want) {
			t.Errorf("%s: %s", preface, got)
		}
	}
}
