package client_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/client"
)

// Only a new state is incomplete, from its first update to its last one.
func TestThePhaseSaysWhatTheCallerHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{
			{messages: []message{reset(), part(0, added("a", 5)), synced(5), live(6, added("b", 6)), bookmark(7)}, end: errLost},
			{messages: []message{replay(7), part(8, added("c", 8)), synced(8)}, end: errLost},
			{messages: []message{delta(8), part(8, added("d", 9)), synced(9), live(10, added("e", 10))}},
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		var phases []string
		for u, err := range connectTo(t, s).Watch(ctx) {
			if err != nil {
				break
			}
			phases = append(phases, u.Phase.String())
			if complete := u.Position.Revision > 0; u.Phase.Complete() != complete {
				t.Errorf("%v: complete is %v, want %v", u.Phase, u.Phase.Complete(), complete)
			}
			if u.Delta && u.Phase != client.PhaseSynced {
				t.Errorf("a difference in phase %v, want SYNCED", u.Phase)
			}
		}
		want := []string{
			"RESET", "SNAPSHOT", "SYNCED", "LIVE", "LIVE",
			"CATCHING_UP", "SYNCED",
			"SYNCED", "LIVE",
		}
		if !slices.Equal(phases, want) {
			t.Errorf("got %q\nwant %q", phases, want)
		}
	})
}
