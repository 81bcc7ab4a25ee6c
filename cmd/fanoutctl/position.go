package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/fanoutd/fanoutd/client"
)

// parsePosition returns the position that a flag names: a revision of the present epoch that exists, or
// EPOCH:REVISION.
func (t *tool) parsePosition(ctx context.Context, r *client.Resource, text string) (client.Position, error) {
	epoch, revision := "", text
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		epoch, revision = text[:i], text[i+1:]
	}
	n, err := strconv.ParseInt(revision, 10, 64)
	if err != nil || n < 1 || epoch == "" && strings.Contains(text, ":") {
		return client.Position{}, usagef("invalid position %q (want a revision, or EPOCH:REVISION as -o json shows them)", text)
	}
	if epoch == "" {
		ctx, cancel := t.withTimeout(ctx, requestTimeout)
		defer cancel()
		page, err := r.ListPage(ctx, client.PageSize(1), client.AllowStale())
		if err == nil && page.Position.Revision < n {
			page, err = r.ListPage(ctx, client.PageSize(1)) // the server may lag behind etcd
		}
		if err != nil {
			return client.Position{}, fmt.Errorf("cannot find the present epoch: %w", err)
		}
		if page.Position.Revision < n {
			return client.Position{}, exitError{exitNotFound, fmt.Errorf("revision %d does not exist yet; the last one is %d", n, page.Position.Revision)}
		}
		epoch = page.Position.Epoch
	}
	return client.Position{Epoch: epoch, Revision: n}, nil
}
