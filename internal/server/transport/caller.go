package transport

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// MaxUserAgentBytes is how much is remembered of what a client says it is.
const MaxUserAgentBytes = 256

// CallerOf returns who makes a request: its address, and what it says it is.
func CallerOf(ctx context.Context) (address, userAgent string) {
	if p, ok := peer.FromContext(ctx); ok {
		address = p.Addr.String()
	}
	userAgent = Header(ctx, "user-agent")
	if IsLocal(ctx) {
		// The gateway adds the address that it knows behind those it was told.
		all := strings.Split(Header(ctx, "x-forwarded-for"), ", ")
		address, userAgent = all[len(all)-1], Header(ctx, "grpcgateway-user-agent")
	}
	// A header may have any bytes, and what has others than text is no message of protobuf.
	return address, apierr.Clip(strings.ToValidUTF8(userAgent, "\uFFFD"), MaxUserAgentBytes)
}

// Header returns the first value of a request header.
func Header(ctx context.Context, name string) string {
	if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
		return values[0]
	}
	return ""
}
