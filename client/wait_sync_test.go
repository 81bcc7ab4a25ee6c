package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

func oneObject() *scriptedServer {
	return &scriptedServer{streams: []stream{{messages: []message{reset(), part(0, withValue(added("a", 1), "1")), synced(5)}}}}
}

// A handler that is added when the informer is synced has its own objects to wait for.
func TestLateHandlersCanBeWaitedFor(t *testing.T) {
	for name, wait := range map[string]func(*client.Informer[int], *client.Registration) error{
		"the informer's WaitForSync": func(i *client.Informer[int], _ *client.Registration) error {
			return i.WaitForSync(context.Background())
		},
		"the informer's WaitForState": func(i *client.Informer[int], _ *client.Registration) error {
			return i.WaitForState(context.Background())
		},
		"its own": func(_ *client.Informer[int], r *client.Registration) error {
			return r.WaitForSync(context.Background())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf := client.NewInformer(connectTo(t, oneObject()), number)
				run(t, inf)
				if err := inf.WaitForSync(t.Context()); err != nil {
					t.Fatal(err)
				}
				late := newRecorder()
				h := late.handler()
				h.Add = func(client.Item[int]) error {
					time.Sleep(5 * time.Second)
					return late.call("+")
				}
				if err := wait(inf, inf.AddHandler(h)); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{"+"}, late.all()); diff != "" {
					t.Errorf("calls when the wait has ended: -want +got:\n%s", diff)
				}
			})
		})
	}
}

func TestWaitsFailIfNothingWillCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := connectTo(t, oneObject())
		never := client.NewInformer(r, number)
		registration := never.AddHandler(client.Handler[int]{})
		for name, wait := range map[string]func(context.Context) error{
			"WaitForSync": never.WaitForSync, "WaitForState": never.WaitForState, "Registration.WaitForSync": registration.WaitForSync,
		} {
			if err := wait(t.Context()); err == nil || !strings.Contains(err.Error(), "not started") {
				t.Errorf("not started: %s: got %v", name, err)
			}
		}
		registration.Remove()
		if err := registration.WaitForSync(t.Context()); err == nil {
			t.Error("a removed handler is synced")
		}

		inf := client.NewInformer(r, number)
		registration = inf.AddHandler(client.Handler[int]{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			time.Sleep(5 * time.Second) // it begins late
			ended <- inf.Run(ctx)
		}()
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Errorf("before Run: got %v", err)
		}
		cancel()
		<-ended
		for name, wait := range map[string]func(context.Context) error{
			"WaitForSync": inf.WaitForSync, "WaitForState": inf.WaitForState, "Registration.WaitForSync": registration.WaitForSync,
		} {
			if err := wait(t.Context()); !errors.Is(err, context.Canceled) {
				t.Errorf("ended: %s: got %v", name, err)
			}
		}
	})
}
