package browser

import (
	"testing"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// TestClusterIsShown checks that the page shows the members of a cluster, and why none may fail. A server without a
// cluster has no such section.
func TestClusterIsShown(t *testing.T) {
	single := inprocess.Config(t)
	inprocess.Start(t, single).Stop()
	s := start(t, func(c *config.Config) {
		c.DataDir = single.DataDir
		c.Cluster = config.NewCluster()
		c.Cluster.Name, c.Cluster.Members = "node-1", map[string]string{}
		for _, name := range []string{"node-1", "node-2", "node-3"} {
			c.Cluster.Members[name] = loopback.FreeAddress(t)
		}
	})
	p := open(t, s.url, desktop)
	p.awaitText("#cluster-rows th", "node-1")
	p.awaitText("#cluster-rows td:nth-child(2)", "leader")
	p.awaitText("#cluster-rows td:nth-child(3)", "healthy")
	p.awaitText("#cluster-rows td:nth-child(4)", "no")
	p.awaitText("#cluster-rows td:nth-child(5)", "0 entries")
	p.awaitText("#cluster-note", "No further member may fail: it needs three voting members to lose one, and has 1. Seen by node-1")
	p.fits()

	// An error that is neither about the cluster nor about rights passes.
	eval[bool](p, `window.asked = 0, window.real = window.fetch, window.fetch = async (url, init) => {
		if (!url.includes("v1/cluster")) return window.real(url, init);
		window.asked++;
		return new Response('{"code": 13, "message": "a bug"}', {status: 500});
	}, true`)
	p.awaitText("#cluster-note", "a bug. The members are as they were before")
	p.await(`window.asked > 1`)
	eval[bool](p, `window.fetch = window.real, true`)
	p.awaitText("#cluster-note", "No further member may fail")

	p = open(t, start(t).url, desktop)
	p.awaitText("#servers-note", "This page shows one server")
	p.await(`document.getElementById("cluster").hidden`)
}
