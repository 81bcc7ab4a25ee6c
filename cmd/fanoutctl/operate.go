package main

import (
	"fmt"
	"net"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/admin"
)

// admin returns the administration of one server. Each server knows its own watches
// only, and the pages of one mean nothing to another.
func (t *tool) admin() (*admin.Admin, error) {
	c, err := t.client(client.WithFirstServer(func(address string) { t.answered.Store(address) }))
	if err != nil {
		return nil, err
	}
	return admin.New(c), nil
}

// server returns the address of the server that has answered last, "" if none has or
// it has no address.
func (t *tool) server() string {
	address, _ := t.answered.Load().(string)
	return address
}

// which says of which server an answer is, where it is not the only one that it can
// have come from.
func (t *tool) which() {
	host, _, err := net.SplitHostPort(t.settings.Server)
	if address := t.server(); address != "" && address != t.settings.Server && (err != nil || host != "localhost") {
		fmt.Fprintf(t.stderr, "This is the server %s; --server chooses another.\n", address)
	}
}
