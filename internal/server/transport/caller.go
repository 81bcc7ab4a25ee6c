package transport

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// MaxUserAgentBytes is how much of the user agent of a client is kept.
const MaxUserAgentBytes = 256

// CallerOf returns the address and the user agent of the client that makes a request. For a
// request of the gateway they are those of the client of the gateway.
func CallerOf(ctx context.Context) (address, userAgent string) {
	if p, ok := peer.FromContext(ctx); ok {
		if info, outside := p.AuthInfo.(ConnInfo); outside {
			address = info.address
		} else {
			address = p.Addr.String()
		}
	}
	userAgent = Header(ctx, "user-agent")
	if IsLocal(ctx) {
		// The gateway appends the address of its client to those that the client sent.
		all := strings.Split(Header(ctx, "x-forwarded-for"), ", ")
		address, userAgent = all[len(all)-1], Header(ctx, "grpcgateway-user-agent")
	}
	// A header may contain any bytes, but a protobuf string must be valid UTF-8.
	return address, apierr.Clip(strings.ToValidUTF8(userAgent, "\uFFFD"), MaxUserAgentBytes)
}

// Header returns the first value of a request header.
func Header(ctx context.Context, name string) string {
	if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
		return values[0]
	}
	return ""
}
