package security

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/jwts"
	"github.com/fanoutd/fanoutd/test/poll"
)

// TestWatchesEndWithTheirCredentials checks that a watch ends when its credentials become
// invalid. Its last message has a position from which good credentials resume without a
// gap. Other watches continue.
func TestWatchesEndWithTheirCredentials(t *testing.T) {
	const renamed, expires = "a token that gets another name", "a certificate that expires"
	const lifetime = 8 * time.Second // time enough to begin a watch, even on a busy machine
	for name, c := range map[string]struct {
		credential func(t *testing.T, w *fixture) credential
		end        func(t *testing.T, w *fixture) // nil: they expire
	}{
		"a token that is removed": {
			credential: func(t *testing.T, w *fixture) credential { return credential{bearer: w.addToken(t, "a")} },
			end: func(t *testing.T, w *fixture) {
				w.lines = w.lines[:1]
				w.setTokens(t)
			},
		},
		renamed: {
			credential: func(t *testing.T, w *fixture) credential { return credential{bearer: w.addToken(t, "a")} },
			end: func(t *testing.T, w *fixture) {
				w.lines[1] = "b" + w.lines[1]
				w.setTokens(t)
			},
		},
		"a JWT that expires": {
			credential: func(t *testing.T, w *fixture) credential {
				return credential{bearer: w.jwt(t, "a", time.Now().Add(lifetime))}
			},
		},
		"a JWT whose key is withdrawn": {
			credential: func(t *testing.T, w *fixture) credential {
				return credential{bearer: w.jwt(t, "a", time.Now().Add(time.Hour))}
			},
			end: func(t *testing.T, w *fixture) { w.setKeys(t, jwts.NewKey(t, "second")) },
		},
		expires: {
			credential: func(t *testing.T, w *fixture) credential {
				return w.certificate(t, certs.Subject{CommonName: "a", NotAfter: time.Now().Add(lifetime)})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t)
			w := newFixture(t, nil)
			stays := credential{bearer: w.addToken(t, "stays")}
			leaves := c.credential(t, w)
			operator, other := w.dial(t, w.certificate(t, certs.Subject{CommonName: "operator"})), w.dial(t, stays)
			conn := w.dial(t, leaves)
			for _, c := range []*grpc.ClientConn{other, conn} {
				poll.Until(t, "the credential is accepted", func() bool { return reasonOf(get(ctx, c)) != refused })
			}
			going, ending := watch(ctx, t, other), watch(ctx, t, conn)
			first := put(ctx, t, operator, "a", "1")
			if c.end != nil {
				c.end(t, w)
			}
			messages, end := rest(ending)
			wantOut(t, name, end)
			last := messages[len(messages)-1]
			if last.GetKind() != fanoutv1.WatchResponse_KIND_DRAINING || last.GetPosition().GetRevision() < first {
				t.Errorf("got %v as the last message, want DRAINING at revision %d or later", last, first)
			}
			switch another := get(ctx, conn); {
			case name == renamed: // the token is valid, with its new name
			case name == expires && reasonOf(another) == "Unavailable": // the connection is gone
			default:
				wantOut(t, "another request", another)
			}
			second := put(ctx, t, operator, "b", "2")
			for seen := int64(0); seen < second; {
				m, err := going.Recv()
				if err != nil {
					t.Fatalf("the other watch: %v", err)
				}
				seen = m.GetPosition().GetRevision()
			}
			resumed, err := fanoutv1.NewFanoutServiceClient(other).Watch(ctx, &fanoutv1.WatchRequest{
				Resource: "config", Begin: &fanoutv1.WatchRequest_After{After: last.GetPosition()}, EveryEvent: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			for {
				m, err := resumed.Recv()
				if err != nil {
					t.Fatal(err)
				}
				if events := m.GetEvents(); len(events) > 0 {
					if events[0].GetObject().GetKey() != "b" {
						t.Errorf("got %v after the resume, want key b", events[0])
					}
					break
				}
			}
		})
	}
}

// TestStreamsGoOnWhileFilesAreReplaced checks that streams lose no event while all files
// with credentials are replaced again and again, under constant writes.
func TestStreamsGoOnWhileFilesAreReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	w := newFixture(t, nil)
	ctx := within(t)
	callers := map[string]credential{
		"certificate": w.certificate(t, certs.Subject{CommonName: "a"}),
		"token":       {bearer: w.addToken(t, "a")},
		"jwt":         {bearer: w.jwt(t, "a", time.Now().Add(time.Hour))},
	}
	writer := w.dial(t, w.certificate(t, certs.Subject{CommonName: "writer"}))
	const watchesEach = 5
	got := make(chan error, watchesEach*len(callers))
	var streams []fanoutv1.FanoutService_WatchClient
	for _, s := range callers {
		conn := w.dial(t, s)
		poll.Until(t, "the credential is accepted", func() bool { return reasonOf(get(ctx, conn)) != refused })
		for range watchesEach {
			streams = append(streams, watch(ctx, t, conn))
		}
	}
	const last = "the last one"
	for _, stream := range streams {
		go func() { got <- countUp(stream, last) }()
	}
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-stop:
				put(ctx, t, writer, "n", last)
				return
			default:
				put(ctx, t, writer, "n", fmt.Sprint(n))
			}
		}
	})
	// Only new connections see a new certificate. The other files are in use once the
	// token that was added last is accepted.
	for n := range 3 {
		name := fmt.Sprintf("generation-%d", n)
		subject := certs.Server
		subject.CommonName = name
		w.server.Replace(t, w.authority.Issue(t, subject))
		w.setKeys(t, jwts.NewKey(t, "second"), w.key)
		certs.Write(t, w.cfg.TLSClientCAFile, append(certs.NewAuthority(t).PEM(), w.authority.PEM()...))
		poll.Until(t, "both listeners show the certificate", func() bool { return w.shownAt(t, w.cfg.Listen) == name && w.shownAt(t, w.cfg.AdminListen) == name })
		conn := w.dial(t, credential{bearer: w.addToken(t, name)})
		poll.Until(t, "the credential is accepted", func() bool { return reasonOf(get(ctx, conn)) != refused })
		certs.Write(t, w.server.Key, []byte("nonsense"))
		certs.Write(t, w.cfg.TokenFile, []byte("nonsense"))
	}
	close(stop)
	writing.Wait()
	for range streams {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
}

// countUp reads the writes of TestStreamsGoOnWhileFilesAreReplaced, and returns an error if
// one is missing.
func countUp(stream fanoutv1.FanoutService_WatchClient, last string) error {
	want := 0
	for {
		m, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("while waiting for %d: %w", want, err)
		}
		for _, e := range m.GetEvents() {
			switch text := e.GetObject().GetText(); {
			case text == last:
				return nil
			case want == 0: // the first event can have any number
				if _, err := fmt.Sscan(text, &want); err != nil {
					return err
				}
			default:
				if want++; text != fmt.Sprint(want) {
					return fmt.Errorf("got %s, want %d", text, want)
				}
			}
		}
	}
}

// TestClientReloadsCredentials checks that the Go client, which knows only the paths of
// its files, continues with new credentials.
func TestClientReloadsCredentials(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	w := newFixture(t, func(cfg *config.Config) { cfg.AdminListen = "" })
	ctx := within(t)
	token := filepath.Join(t.TempDir(), "token")
	certs.Write(t, token, []byte(w.addToken(t, "first")+"\n"))
	operator := w.dial(t, w.certificate(t, certs.Subject{CommonName: "operator"}))
	pair := w.authority.Issue(t, certs.Subject{CommonName: "brief"}).Files(t)
	trust := client.WithTLS(w.tls(credential{}))
	for name, opt := range map[string]client.Option{
		"token":       client.WithTokenFile(token),
		"certificate": client.WithCertificateFiles(pair.Cert, pair.Key),
	} {
		t.Run(name, func(t *testing.T) {
			pair.Replace(t, w.authority.Issue(t, certs.Subject{CommonName: "brief", NotAfter: time.Now().Add(4 * time.Second)}))
			c, err := client.New(w.cfg.Listen, trust, opt)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			in := c.Resource("config")
			poll.Until(t, "the client reads again", func() bool {
				_, err := in.Get(ctx, "a")
				return !errors.Is(err, client.ErrUnauthenticated)
			})
			began := make(chan struct{})
			begin := sync.OnceFunc(func() { close(began) })
			done := make(chan error, 1)
			go func() {
				for u, err := range in.Watch(ctx, client.FromNow()) {
					if err != nil {
						done <- err
						return
					}
					begin()
					for _, e := range u.Events {
						if e.Object.Key == name+"/end" {
							done <- nil
							return
						}
					}
				}
			}()
			select {
			case <-began:
			case err := <-done:
				t.Fatal(err)
			}
			switch name {
			case "token":
				// Break the connection. The new token is in the file before the client reconnects.
				w.lines = nil
				certs.Write(t, token, []byte(w.addToken(t, "second")))
			case "certificate":
				pair.Replace(t, w.authority.Issue(t, certs.Subject{CommonName: "lasting"}))
			}
			poll.Until(t, "the watch has its identity", func() bool {
				names := identities(ctx, t, operator)
				return len(names) == 1 && names[0] != "first" && names[0] != "brief"
			})
			put(ctx, t, operator, name+"/end", "1")
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
