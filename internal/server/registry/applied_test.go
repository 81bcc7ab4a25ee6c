package registry

import (
	"testing"
	"time"
	"unique"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/protobuf/reflect/protoreflect"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// valueOf returns a field of what a message shows of the pending watch.
func valueOf(a *Applied, field protoreflect.Name) protoreflect.Value {
	s := a.Pending[0].Status().ProtoReflect()
	return s.Get(s.Descriptor().Fields().ByName(field))
}

// A message of WatchApplied is sent when the digest changes. Each field of a pending watch changes it, except
// those that never change, and those that change with each event or with time.
func TestAChangeOfAPendingWatchChangesTheDigest(t *testing.T) {
	unchanging := map[protoreflect.Name]bool{
		"id": true, "peer": true, "user_agent": true, "request": true, "since": true, "identity": true,
	}
	frequent := map[protoreflect.Name]bool{
		"position": true, "lag_revisions": true, "lag_events": true, "lag": true, "lag_is_minimum": true,
		"messages": true, "bytes": true, "applied_lag": true,
	}
	failing := func(change func(*failure)) func(*fakeWatch) {
		return func(w *fakeWatch) {
			f := *w.observed.failure
			change(&f)
			w.observed.failure = &f
		}
	}
	changes := map[protoreflect.Name]func(*fakeWatch){
		"state":       func(w *fakeWatch) { w.progress.CatchingUp = true },
		"blocked":     func(w *fakeWatch) { w.progress.Blocked = true },
		"subscriber":  func(w *fakeWatch) { w.Caller().SetName(&fanoutv1.Subscriber{Instance: "other"}) },
		"reports":     func(w *fakeWatch) { w.reports = false },
		"applied":     func(w *fakeWatch) { w.observed.Applied.Revision++ },
		"error":       failing(func(f *failure) { f.message = unique.Make("other") }),
		"error_time":  failing(func(f *failure) { f.since = f.since.Add(time.Second) }),
		"failed_keys": failing(func(f *failure) { f.keys = []unique.Handle[object.Key]{unique.Make(object.Key("other"))} }),
		"attempted":   failing(func(f *failure) { f.attempted.Revision++ }),
	}
	fields := (*fanoutv1.WatcherStatus)(nil).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		name := fields.Get(i).Name()
		change := changes[name]
		if (change != nil) == (unchanging[name] || frequent[name]) {
			t.Errorf("%s: want it in one of changes, unchanging and frequent", name)
		}
		if change == nil {
			continue
		}
		t.Run(string(name), func(t *testing.T) {
			w := newRPC("a", 0).watches[0]
			w.rpc.caller.Identity = &access.Identity{}
			w.rpc.caller.registry = &Registry{}
			w.resource = &backend.Resource{Name: "a"}
			w.summary = summarize(&fanoutv1.WatchRequest{})
			w.reports = true
			w.observed = &observed{Reported: Reported{
				Applied: object.Position{Epoch: "e", Revision: 1},
				failure: &failure{code: code.Code_INTERNAL, message: unique.Make("bad"), since: time.Unix(1, 0), attempted: object.Position{Epoch: "e", Revision: 2}},
			}}
			count := func() *Applied {
				p := Pending{Watch: w}
				p.reports, p.reported = reportOf(w)
				p.observe()
				return &Applied{Pending: []Pending{p}}
			}
			counted := count()
			before := counted.Digest()
			if count().Digest() != before {
				t.Fatal("the digest changes although nothing has changed")
			}
			shown := valueOf(counted, name)
			change(w)
			if count().Digest() == before {
				t.Error("the digest is as before, so no message is sent")
			}
			// Otherwise the watch may be as before when the next digest is made, and the message stays.
			if now := valueOf(counted, name); !now.Equal(shown) {
				t.Errorf("a message of the earlier count has %v, the digest is that of %v", now, shown)
			}
		})
	}
}
