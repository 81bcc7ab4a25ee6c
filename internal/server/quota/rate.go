package quota

import (
	"math"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// rememberedClients is how many clients have a limiter. The least recently used one is
// dropped first; its client may then exceed its rate by one burst. A limiter takes about 200
// bytes.
const rememberedClients = 1 << 16

// unlimited is the limiter of a rate without limit.
var unlimited = rate.NewLimiter(rate.Inf, 0)

// ClientLimiters have a token bucket for each client.
type ClientLimiters struct {
	perSecond rate.Limit
	burst     int
	limiters  *lru.Cache[Client, *rate.Limiter] // nil: without limit
}

// NewClientLimiters returns limiters with a rate and a burst. A rate of zero means no limit. A burst
// of zero is what one second allows.
func NewClientLimiters(perSecond float64, burst int) ClientLimiters {
	if perSecond == 0 {
		return ClientLimiters{}
	}
	// It fails for a size that is not positive.
	remember, err := lru.New[Client, *rate.Limiter](rememberedClients)
	if err != nil {
		panic(err)
	}
	return ClientLimiters{perSecond: rate.Limit(perSecond), burst: burstOf(perSecond, burst), limiters: remember}
}

// burstOf returns the size of a bucket: the configured one, or if that is zero what one second
// allows.
func burstOf(perSecond float64, configured int) int {
	if configured > 0 {
		return configured
	}
	return int(math.Ceil(min(perSecond, math.MaxInt32)))
}

// Of returns the limiter of a client.
func (b *ClientLimiters) Of(c Client) *rate.Limiter {
	if b.limiters == nil {
		return unlimited
	}
	bucket, ok := b.limiters.Get(c)
	if !ok {
		bucket = rate.NewLimiter(b.perSecond, b.burst)
		if earlier, found, _ := b.limiters.PeekOrAdd(c, bucket); found {
			bucket = earlier
		}
	}
	return bucket
}

// requestLimiter limits how many requests of a kind a client makes per second.
type requestLimiter struct {
	ClientLimiters
	name apierr.Limit
	what string // the kind of requests, in the plural
}

// allow counts a request of a client. The error is a [*apierr.LimitError].
func (r *requestLimiter) allow(c Client) error {
	bucket, now := r.Of(c), time.Now()
	if bucket.AllowN(now, 1) {
		return nil
	}
	missing := max(1-bucket.TokensAt(now), 0)
	const rounding = time.Microsecond
	return &apierr.LimitError{
		Name: r.name, What: r.what + " per second", Limit: float64(r.perSecond), Client: c.String(),
		RetryAfter: max(time.Duration(missing/float64(r.perSecond)*float64(time.Second))+rounding, time.Millisecond),
	}
}
