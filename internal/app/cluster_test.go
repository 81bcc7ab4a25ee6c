package app_test

import (
	"strings"
	"testing"
)

// Three servers found one cluster whatever the order in which they start, and each reads what another one
// has written. Until the last one answers, the others say that they wait for it.
func TestFoundingInEveryOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for _, order := range []string{"node-1 node-2 node-3", "node-1 node-3 node-2", "node-2 node-1 node-3", "node-2 node-3 node-1", "node-3 node-1 node-2", "node-3 node-2 node-1"} {
		t.Run(order, func(t *testing.T) {
			configs := machines(t, "node-1", "node-2", "node-3")
			names := strings.Fields(order)
			late := names[2]
			running := launchAll(t, configs, names[:2]...)
			for _, m := range running {
				m.says(t, "waiting for "+late)
			}
			running[late] = launch(t, configs[late])
			for _, writer := range names {
				running[writer].put(t, "by/"+writer, writer)
				for _, reader := range names {
					if got := running[reader].get(t, "by/"+writer); got != writer {
						t.Errorf("%s reads %q of %s", reader, got, writer)
					}
				}
			}
			stopAll(t, running)
		})
	}
}
