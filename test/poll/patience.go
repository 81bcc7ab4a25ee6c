package poll

import (
	"context"
	"testing"
	"time"
)

// Patience bounds each wait of a test. Only a broken program reaches it, also on a machine that is busy with
// other work. It is much shorter than the time limit of go test, whose message would not name the wait.
const Patience = 5 * time.Minute

// Context returns a context that ends with the test, or after Patience. gRPC does not send this deadline to the
// server, which treats the requests as those of most clients: they have none.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return unannounced{ctx}
}

// unannounced is a context that does not say when it ends.
type unannounced struct{ context.Context }

// Deadline implements [context.Context].
func (unannounced) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
