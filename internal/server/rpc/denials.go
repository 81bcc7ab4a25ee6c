package rpc

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// What the audit log has of the denials of one client: so many bytes at once, which are
// some hundreds, and so many per second, which is about one.
const (
	denialBytes          = 128 << 10
	denialBytesPerSecond = 512
)

// Denials says which denials are recorded. Anybody can cause as many as it can send, and
// would have what others have done rotated away with them. So where one client has had
// its share they are only counted.
type Denials struct{ quota.ClientLimiters }

func NewDenials() *Denials {
	return &Denials{quota.NewClientLimiters(denialBytesPerSecond, denialBytes)}
}

// recorded reports whether there is room for the record of a denial of a client.
func (d *Denials) recorded(c quota.Client, r *audit.Record) bool {
	return d.Of(c).AllowN(time.Now(), r.Size())
}
