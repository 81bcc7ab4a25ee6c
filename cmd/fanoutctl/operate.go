package main

import (
	"fmt"
	"net"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/admin"
)

// firstServer makes everything go to the first server that can be reached, instead of
// to all in turn. Each server knows its own watches only: the pages of one mean nothing
// to another.
const firstServer = `{"loadBalancingConfig": [{"pick_first": {}}]}`

// admin returns the administration of one server.
func (t *tool) admin() (*admin.Admin, error) {
	c, err := t.client(client.WithDialOptions(grpc.WithDefaultServiceConfig(firstServer)))
	if err != nil {
		return nil, err
	}
	return admin.New(c), nil
}

// which says of which server an answer is, where it is not the only one that it can
// have come from.
func (t *tool) which(a *admin.Admin) {
	host, _, err := net.SplitHostPort(t.settings.Server)
	if answered := a.Server(); answered != "" && answered != t.settings.Server && (err != nil || host != "localhost") {
		fmt.Fprintf(t.stderr, "This is the server %s; --server chooses another.\n", answered)
	}
}
