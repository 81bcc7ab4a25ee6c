package client

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Option is a setting of a client.
type Option func(*settings)

type settings struct {
	tls *tls.Config
	// certificate returns what the client shows, if it is not in tls.
	certificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	insecure    bool
	token       TokenSource
	keepalive   time.Duration
	userAgent   string
	log         *slog.Logger
	dial        []grpc.DialOption
}

// DefaultKeepalive is how long a connection may be silent before the client asks
// whether the server is still there. Servers accept no less than 10 s.
const DefaultKeepalive = 15 * time.Second

// The server sends no larger messages than a few MiB, unless one event alone is
// larger: two versions of one value, and values are bounded by what etcd takes.
const maxMessageBytes = 64 << 20

// WithTLS encrypts connections, and says whom to trust and who the client is. The
// zero configuration, and nil, trust whom the system trusts.
func WithTLS(config *tls.Config) Option {
	if config == nil {
		config = &tls.Config{}
	}
	return func(s *settings) { s.tls = config.Clone() }
}

// WithInsecure talks to the server in plaintext, wherever it is. A token is not
// sent in plaintext to another machine even so: requests fail instead. For the same
// reason a client with a token and without TLS uses no proxy.
func WithInsecure() Option { return func(s *settings) { s.insecure = true } }

// renewable reports whether the credentials of a later request can be others.
func (s *settings) renewable() bool {
	return s.token != nil || s.certificate != nil || s.tls != nil && s.tls.GetClientCertificate != nil
}

// WithToken sends a bearer token with every request.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenSource asks for the bearer token of every request, so that it can
// change. The source may be called by several goroutines at once and should answer
// from memory. When it fails, so does the request, as if the server were
// unavailable.
func WithTokenSource(source TokenSource) Option { return func(s *settings) { s.token = source } }

// WithKeepalive sets how long a connection with requests under way may be silent
// before the client asks whether the server is still there; without an answer
// within 10 s it is given up. At least 10 s; default [DefaultKeepalive].
func WithKeepalive(silence time.Duration) Option {
	return func(s *settings) { s.keepalive = max(silence, 10*time.Second) }
}

// WithUserAgent says which program this is; servers show it to their operators.
func WithUserAgent(name string) Option { return func(s *settings) { s.userAgent = name } }

// WithLogger has what no caller is told logged: interruptions of watches at level
// Info and what an informer cannot decode or save at level Warn. Default: nothing.
func WithLogger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// WithDialOptions adds options of gRPC, after those of this package and so with
// precedence over them.
func WithDialOptions(opts ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, opts...) }
}

// Reads are tried again where the server is unavailable or has too much to do, because
// that does no harm. It can say when, in the header grpc-retry-pushback-ms.
const serviceConfig = `{
	"loadBalancingConfig": [{"` + balancerName + `": {}}],
	"methodConfig": [{
		"name": [
			{"service": "fanout.v1.FanoutService", "method": "Get"},
			{"service": "fanout.v1.FanoutService", "method": "List"}
		],
		"retryPolicy": {
			"maxAttempts": 4,
			"initialBackoff": "0.2s",
			"maxBackoff": "2s",
			"backoffMultiplier": 3,
			"retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]
		}
	}]
}`

func (s *settings) dialOptions(to target) []grpc.DialOption {
	reconnect := backoff.DefaultConfig
	reconnect.BaseDelay, reconnect.MaxDelay = 200*time.Millisecond, 5*time.Second
	creds := s.credentials(to)
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 5 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: s.keepalive, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)),
		grpc.WithResolvers(to.resolvers()...),
	}
	if s.token != nil {
		opts = append(opts, grpc.WithPerRPCCredentials(s.token))
		if _, ok := creds.(plaintext); ok {
			// With a proxy in between, its address would be taken for the place
			// where the connection ends.
			opts = append(opts, grpc.WithNoProxy())
		}
	}
	if s.userAgent != "" {
		opts = append(opts, grpc.WithUserAgent(s.userAgent))
	}
	return append(opts, s.dial...)
}

func (s *settings) credentials(to target) credentials.TransportCredentials {
	switch {
	case s.certificate != nil:
		config := &tls.Config{}
		if s.tls != nil {
			config = s.tls.Clone()
		}
		config.GetClientCertificate = s.certificate
		return credentials.NewTLS(config)
	case s.tls != nil:
		return credentials.NewTLS(s.tls)
	case s.insecure:
		return plaintext{insecure.NewCredentials()}
	case to.local:
		return plaintext{insecure.NewCredentials()}
	}
	return credentials.NewTLS(&tls.Config{})
}
