package rpc

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// How many bytes of records the denials of one client may take at once (some hundreds of
// records) and per second (about one record).
const (
	denialBytes          = 128 << 10
	denialBytesPerSecond = 512
)

// Denials limits how many denials of one client are recorded. Any client can cause as many as
// it can send, and the rotation of the audit log would then drop the records of others.
type Denials struct{ quota.ClientLimiters }

// NewDenials returns limits that nothing has used yet.
func NewDenials() *Denials {
	return &Denials{quota.NewClientLimiters(denialBytesPerSecond, denialBytes)}
}

// recorded reports whether the record of a denial fits into the limits of the client.
func (d *Denials) recorded(c quota.Client, r *audit.Record) bool {
	return d.Of(c).AllowN(time.Now(), r.Size())
}
