package quota

import (
	"math"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// rememberedClients is how many clients have a value of a kind. That of the client which has been
// without a request for the longest time is dropped first; the client then gets a new one.
const rememberedClients = 1 << 16

// perClient has a value for each client.
type perClient[T any] struct {
	values *lru.Cache[Client, T]
	make   func() T
}

func newPerClient[T any](make func() T) perClient[T] {
	// It fails for a size that is not positive.
	values, err := lru.New[Client, T](rememberedClients)
	if err != nil {
		panic(err)
	}
	return perClient[T]{values, make}
}

// of returns the value of a client.
func (p *perClient[T]) of(c Client) T {
	value, ok := p.values.Get(c)
	if !ok {
		value = p.make()
		if earlier, found, _ := p.values.PeekOrAdd(c, value); found {
			value = earlier
		}
	}
	return value
}

// unlimited is the limiter of a rate without limit.
var unlimited = rate.NewLimiter(rate.Inf, 0)

// ClientLimiters have a token bucket for each client. A client whose bucket is dropped may exceed its
// rate by one burst. A bucket takes about 200 bytes.
type ClientLimiters struct {
	perSecond rate.Limit // 0: without limit
	limiters  perClient[*rate.Limiter]
}

// NewClientLimiters returns limiters with a rate and a burst. A rate of zero means no limit. A burst
// of zero is what one second allows.
func NewClientLimiters(perSecond float64, burst int) ClientLimiters {
	if perSecond == 0 {
		return ClientLimiters{}
	}
	limit, size := rate.Limit(perSecond), burstOf(perSecond, burst)
	return ClientLimiters{limit, newPerClient(func() *rate.Limiter { return rate.NewLimiter(limit, size) })}
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
	if b.perSecond == 0 {
		return unlimited
	}
	return b.limiters.of(c)
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
