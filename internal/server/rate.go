package server

import (
	"context"
	"math"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// rememberedClients is how many clients there are of which it is known how often
// they have asked. The one that has not asked for the longest time is forgotten
// first; it then may ask a burst more than it should. A client takes about 200 bytes.
const rememberedClients = 1 << 16

// buckets are those of the clients, by which is known how often they do something: each
// fills with tokens at a rate, and whatever is done takes one.
type buckets struct {
	perSecond rate.Limit
	burst     int
	remember  *lru.Cache[client, *rate.Limiter]
}

func newBuckets(perSecond float64, burst int) buckets {
	// It fails for a size that is not positive.
	remember, err := lru.New[client, *rate.Limiter](rememberedClients)
	if err != nil {
		panic(err)
	}
	if burst == 0 {
		burst = int(math.Ceil(min(perSecond, math.MaxInt32)))
	}
	return buckets{perSecond: rate.Limit(perSecond), burst: burst, remember: remember}
}

func (b *buckets) of(c client) *rate.Limiter {
	bucket, ok := b.remember.Get(c)
	if !ok {
		bucket = rate.NewLimiter(b.perSecond, b.burst)
		if earlier, found, _ := b.remember.PeekOrAdd(c, bucket); found {
			bucket = earlier
		}
	}
	return bucket
}

// rates says how often a client may ask. It is a [ratelimit.Limiter].
type rates struct{ buckets }

func newRates(perSecond float64, burst int) *rates { return &rates{newBuckets(perSecond, burst)} }

// Limit implements [ratelimit.Limiter]. The library makes a status of the error that
// says neither why nor when to come back, so the error is left with the call, too.
func (r *rates) Limit(ctx context.Context) error {
	c := clientOf(ctx)
	bucket, now := r.of(c), time.Now()
	if bucket.AllowN(now, 1) {
		return nil
	}
	missing := max(1-bucket.TokensAt(now), 0)
	const rounding = time.Microsecond
	err := &apierr.LimitError{
		Reason: apierr.ReasonRateLimited, What: "requests per second", Limit: float64(r.perSecond), Client: c.String(),
		RetryAfter: max(time.Duration(missing/float64(r.perSecond)*float64(time.Second))+rounding, time.Millisecond),
	}
	callOf(ctx).refused = err
	return err
}

// counted matches what counts as a request. Whether the server is healthy can be
// asked at any time: who asks decides about its life.
var counted = selector.MatchFunc(func(_ context.Context, c interceptors.CallMeta) bool {
	return c.Service != healthpb.Health_ServiceDesc.ServiceName
})
