package top

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/internal/ctl/admin"
)

// Look is how a server does at a moment.
type Look struct {
	at        time.Time
	resources []admin.Resource
	watching  admin.Watching
	rate      float64 // bytes per second to all watchers; negative if not known
}

// Ask asks a server.
func Ask(ctx context.Context, server *admin.Admin) (*Look, error) {
	look := &Look{rate: -1}
	var err error
	if look.resources, err = server.Resources(ctx, true); err != nil {
		return nil, err
	}
	if look.watching, err = server.Watchers(ctx, "", true); err != nil {
		return nil, err
	}
	look.at = time.Now()
	return look, nil
}

// since compares with what was seen of the same server before. Who is new has begun
// since: that is known only if all were seen.
func (l *Look) since(before *Look) {
	if before == nil || !l.at.After(before.at) || !before.hasAll() || !l.hasAll() {
		return
	}
	sent := map[string]int64{}
	for _, w := range before.watching.Watchers {
		sent[w.ID] = w.Bytes
	}
	var bytes int64
	for _, w := range l.watching.Watchers {
		bytes += w.Bytes - sent[w.ID]
	}
	l.rate = float64(bytes) / l.at.Sub(before.at).Seconds()
}

// hasAll reports whether these are all watchers, and not just those furthest behind.
func (l *Look) hasAll() bool { return int64(len(l.watching.Watchers)) >= l.watching.Total }
