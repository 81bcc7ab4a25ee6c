package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/fanoutd/fanoutd/client"
)

// parsePosition returns the position that a flag names: a revision of the present epoch, or
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
		if err != nil {
			return client.Position{}, fmt.Errorf("cannot find the present epoch: %w", err)
		}
		epoch = page.Position.Epoch
	}
	return client.Position{Epoch: epoch, Revision: n}, nil
}
