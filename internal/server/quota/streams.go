package quota

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

// pairedRate is a rate of each connection and a rate of each client.
type pairedRate struct {
	perConnection float64 // 0: no limit
	clients       ClientLimiters
}

func newPairedRate(perConnection, perClient float64) pairedRate {
	return pairedRate{perConnection, NewClientLimiters(perClient, 0)}
}

const (
	// spareShare is the share of the rate of a client that each connection may abandon even if
	// others have used up the rate. So a client that behaves well keeps its connection if it
	// shares its address with an attacker.
	spareShare = 0.01

	// httpWeight is how many abandoned streams one of HTTP counts for: its request passes
	// through the gateway and then through gRPC.
	httpWeight = 10
)

// ofConnection returns the bucket of a new connection.
func (p *pairedRate) ofConnection() *rate.Limiter {
	if p.perConnection == 0 {
		return unlimited
	}
	return rate.NewLimiter(rate.Limit(p.perConnection), burstOf(p.perConnection, 0))
}

// spare returns the bucket of a new connection for when the bucket of its client is empty.
func (p *pairedRate) spare() *rate.Limiter {
	perSecond := spareShare * p.clients.perSecond
	return rate.NewLimiter(perSecond, int(perSecond))
}

// StreamBudget limits how the client of one connection opens streams, and how many it abandons. It
// is a frames.Budget.
type StreamBudget struct {
	limits    *Limiter
	host      Client
	turns     *hostTurns    // of the host
	abandoned *rate.Limiter // of the connection
	spare     *rate.Limiter // see spareShare
	weight    int           // of an abandoned stream
}

// StreamBudget returns the budget of a new connection of gRPC from an address.
func (l *Limiter) StreamBudget(address string) *StreamBudget { return l.streamBudget(address, 1) }

// HTTPStreamBudget returns the budget of a new connection of HTTP from an address.
func (l *Limiter) HTTPStreamBudget(address string) *StreamBudget {
	return l.streamBudget(address, httpWeight)
}

func (l *Limiter) streamBudget(address string, weight int) *StreamBudget {
	host := ClientAt(address)
	return &StreamBudget{
		limits: l, host: host, weight: weight, turns: l.turns.of(host),
		abandoned: l.abandoned.ofConnection(), spare: l.abandoned.spare(),
	}
}

// AwaitTurn waits until the connection may begin a burst of streams, or closed is closed. It returns
// how long that took if it is noticeable, or else 0. The turn is that of the host, because the client
// has not authenticated yet.
func (b *StreamBudget) AwaitTurn(closed <-chan struct{}) (waited time.Duration) {
	began := time.Now()
	b.turns.await(closed)
	return b.limits.noteWait(b.host, time.Since(began))
}

// AbandonStream counts a stream that its client gave up soon after it had opened it. The
// stream counts for the client with the name, or for the host if the name is empty. The error
// is an [*AbandonedError].
func (b *StreamBudget) AbandonStream(name string) error {
	client := b.host
	if name != "" {
		client = Client{Name: name}
	}
	now, ofClient := time.Now(), b.limits.abandoned.clients.Of(client)
	switch {
	case !b.allow(b.abandoned, now):
		return b.refuse(client, MaxResetRate, b.abandoned)
	case !b.allow(ofClient, now) && !b.allow(b.spare, now):
		return b.refuse(client, MaxResetRatePerClient, ofClient)
	}
	return nil
}

func (b *StreamBudget) allow(bucket *rate.Limiter, now time.Time) bool {
	return bucket.AllowN(now, max(1, min(b.weight, bucket.Burst())))
}

func (b *StreamBudget) refuse(client Client, limit ConnectionLimit, bucket *rate.Limiter) error {
	b.limits.refuseConnection(limit, client)
	return &AbandonedError{Limit: limit, PerSecond: float64(bucket.Limit())}
}

// AbandonedError ends a connection whose client abandons too many streams.
type AbandonedError struct {
	Limit     ConnectionLimit
	PerSecond float64
}

func (e *AbandonedError) Error() string {
	return fmt.Sprintf("too many requests were canceled as soon as they had begun: %s allows %v per second", e.Limit, e.PerSecond)
}
