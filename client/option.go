package client

import (
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Option is an option of [New].
type Option func(*settings)

type settings struct {
	tls *tls.Config
	// certificate returns the client certificate, if it is not part of tls.
	certificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	insecure    bool
	token       TokenSource
	tokenFixed  bool // the token never changes
	// requestTimeout is for requests whose context has no deadline.
	requestTimeout time.Duration
	keepalive      time.Duration
	userAgent      string
	subscriber     *fanoutv1.Subscriber
	log            *slog.Logger
	observer       Observer
	dial           []grpc.DialOption

	waitingAfter  time.Duration
	waitingNotice func(failure error)
}

// DefaultKeepalive is the silence on a connection after which the client checks
// whether the server is still there. Servers accept such checks every 10 s at most.
const DefaultKeepalive = 15 * time.Second

// maxMessageBytes bounds the messages that the client accepts. Servers send no more
// than a few MiB, unless a single event is larger; an event has at most two versions of
// a value, and etcd bounds the size of values.
const maxMessageBytes = 64 << 20

// WithTLS encrypts connections with this configuration. The zero configuration, and
// nil, trust the authorities that the system trusts.
func WithTLS(config *tls.Config) Option {
	if config == nil {
		config = &tls.Config{}
	}
	return func(s *settings) { s.tls = config.Clone() }
}

// WithInsecure uses plaintext connections, also to other machines. The client never
// sends a token in plaintext to another machine: such requests fail. To be sure where
// a connection ends, a client with a token and without TLS uses no proxy.
func WithInsecure() Option { return func(s *settings) { s.insecure = true } }

// WithToken sends a bearer token with every request.
func WithToken(token string) Option {
	return func(s *settings) {
		s.token, s.tokenFixed = func(context.Context) (string, error) { return token, nil }, true
	}
}

// WithTokenSource sends the bearer token that the source returns for each request, so
// that the token can change. Any number of goroutines may call the source at once; it
// should answer from memory. If the source fails, the request fails with code
// Unavailable. The token of the shared stream is that of all watches; its context has none of the
// values of the contexts of the watches.
func WithTokenSource(source TokenSource) Option {
	return func(s *settings) { s.token, s.tokenFixed = source, false }
}

// WithTokenFile sends the bearer token in a file with every request, without the white
// space around it. The file is read for each request, so it may be replaced, as
// Kubernetes does with the tokens of service accounts.
func WithTokenFile(path string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return readToken(path) })
}

// WithCertificateFiles shows the server a client certificate from PEM files. They are
// read for each connection, so they may be replaced; servers make clients open a new
// connection every quarter of an hour. Connections are encrypted, with the
// configuration of [WithTLS] if there is one.
func WithCertificateFiles(certFile, keyFile string) Option {
	return func(s *settings) { s.certificate = certificateFiles(certFile, keyFile) }
}

// WithKeepalive sets how long a connection may be silent before the client checks whether
// the server is still there, also while there are no requests. Without an answer within
// 10 s, the client opens another connection. At least 10 s; default [DefaultKeepalive].
func WithKeepalive(silence time.Duration) Option {
	return func(s *settings) { s.keepalive = max(silence, 10*time.Second) }
}

// DefaultRequestTimeout is the time for a request whose context has no deadline.
const DefaultRequestTimeout = 30 * time.Second

// WithRequestTimeout sets the time for a request whose context has no deadline, with all attempts and
// pauses. A list is one request for each page; an [Resource.Update] is one request. Watches are not
// limited. If the time is not positive, there is no limit. Default [DefaultRequestTimeout].
func WithRequestTimeout(d time.Duration) Option {
	return func(s *settings) { s.requestTimeout = d }
}

// WithUserAgent names the program. Servers show the name to their operators.
func WithUserAgent(name string) Option { return func(s *settings) { s.userAgent = name } }

// WithSubscriber names this process for the operators of the servers, who see how far each process
// has applied its watches: an instance, such as the name of a pod, and labels, such as the name and
// version of the program. The labels follow the rules of Kubernetes. Without an instance, and by
// default, the instance is the host name and the process id.
func WithSubscriber(instance string, labels map[string]string) Option {
	return func(s *settings) {
		if instance == "" {
			instance = defaultInstance()
		}
		s.subscriber = &fanoutv1.Subscriber{Instance: instance, Labels: maps.Clone(labels)}
	}
}

// defaultInstance returns the host name and the process id.
func defaultInstance() string {
	id := strconv.Itoa(os.Getpid())
	host, err := os.Hostname()
	if err != nil {
		return id
	}
	return host + "/" + id
}

// WithLogger logs what no caller gets as an error: interruptions of watches at level
// Info, and at level Warn objects and files that an informer cannot use, and calls of handlers
// that fail. Default: no logs.
func WithLogger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// WithDialOptions adds gRPC options. They override those of this package.
func WithDialOptions(opts ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, opts...) }
}

// renewable reports whether later requests may have other credentials.
func (s *settings) renewable() bool {
	return s.token != nil && !s.tokenFixed || s.renewsCertificate()
}

// renewsCertificate reports whether later connections may have another certificate.
func (s *settings) renewsCertificate() bool {
	return s.certificate != nil || s.tls != nil && s.tls.GetClientCertificate != nil
}

const serviceConfig = `{"loadBalancingConfig": [{"` + balancerName + `": {}}]}`

// The flow control windows of gRPC. The stream window bounds what gRPC holds of a watch
// with a stream of its own whose caller does not read. By default gRPC lets the window of each stream grow to many MiB. The connection window does
// not depend on what callers read.
const (
	streamWindow     = minBuffer
	connectionWindow = 1 << 20
)

func (s *settings) dialOptions(to target) []grpc.DialOption {
	reconnect := grpcbackoff.DefaultConfig
	reconnect.BaseDelay, reconnect.MaxDelay = 200*time.Millisecond, 5*time.Second
	creds := s.credentials(to)
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 5 * time.Second}),
		// Without requests, pings keep proxies from cutting the connection, and find out if one did.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: s.keepalive, Timeout: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connectionWindow),
		grpc.WithResolvers(to.resolvers()...),
	}
	if s.token != nil {
		opts = append(opts, grpc.WithPerRPCCredentials(s.token))
		if _, ok := creds.(plaintext); ok {
			// The address of a proxy would look like the end of the connection.
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
		return credentials.NewTLS(withOwnGoroutines(config))
	case s.tls != nil:
		return credentials.NewTLS(withOwnGoroutines(s.tls))
	case s.insecure, to.local:
		return plaintext{insecure.NewCredentials()}
	}
	return credentials.NewTLS(&tls.Config{})
}
