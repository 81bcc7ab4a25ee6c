package security

import (
	"bufio"
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/poll"
)

// TestCallersAreIdentified checks that each kind of credentials is accepted over gRPC and
// over HTTP, and that the handlers know the caller's name.
func TestCallersAreIdentified(t *testing.T) {
	w := newFixture(t, nil)
	ctx := within(t)
	token := w.addToken(t, "by-token")
	operator := w.certificate(t, certs.Subject{CommonName: "operator"})
	callers := map[string]credential{
		"spiffe://example.com/by-certificate": w.certificate(t, certs.Subject{CommonName: "cn", URIs: []string{"spiffe://example.com/by-certificate"}}),
		"by-token":                            {bearer: token},
		"by-jwt":                              {bearer: w.jwt(t, "by-jwt", time.Now().Add(time.Minute))},
	}
	both := w.certificate(t, certs.Subject{CommonName: "a proxy"})
	both.bearer = w.jwt(t, "behind-the-proxy", time.Now().Add(time.Minute))
	callers["behind-the-proxy"] = both
	admin := w.dial(t, operator)
	late := w.dial(t, callers["by-token"])
	poll.Until(t, "the credential is accepted", func() bool { return reasonOf(get(ctx, late)) != refused })
	for name, s := range callers {
		conn := w.dial(t, s)
		wantIn(t, name, get(ctx, conn))
		stream := watch(ctx, t, conn)
		if names := identities(ctx, t, admin); !slices.Equal(names, []string{name}) {
			t.Errorf("%s watches as %q", name, names)
		}
		_ = stream.CloseSend()
		_ = conn.Close()
		poll.Until(t, "no watch is open", func() bool { return len(identities(ctx, t, admin)) == 0 })

		resp := w.open(t, s, "/v1/resources/config/watch")
		if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if names := identities(ctx, t, admin); !slices.Equal(names, []string{name}) {
			t.Errorf("%s watches over HTTP as %q", name, names)
		}
		_ = resp.Body.Close()
		poll.Until(t, "no watch is open", func() bool { return len(identities(ctx, t, admin)) == 0 })
	}
}

// TestBadCredentialsAreRefused checks that a caller without good credentials gets the
// reason UNAUTHENTICATED, for every kind of request.
func TestBadCredentialsAreRefused(t *testing.T) {
	w := newFixture(t, nil)
	ctx := within(t)
	good := w.certificate(t, certs.Subject{CommonName: "good"})
	wantIn(t, "a certificate", get(ctx, w.dial(t, good)))
	anonymous := w.dial(t, credential{})

	wantOut(t, "nothing", get(ctx, anonymous))
	for _, header := range []string{"Bearer wrong", "Bearer ", "Bearer", "Basic Z29vZDpnb29k", "wrong", "", "Bearer a.b.c"} {
		wantOut(t, header, get(with(ctx, "authorization", header), anonymous))
		wantOut(t, header+" and a certificate", get(with(ctx, "authorization", header), w.dial(t, good)))
	}
	wantOut(t, "two tokens", get(with(ctx, "authorization", "Bearer a", "authorization", "Bearer b"), anonymous))
	wantOut(t, "a JWT that has expired", get(ctx, w.dial(t, credential{bearer: w.jwt(t, "late", time.Now().Add(-time.Second))})))

	// The HTTP gateway passes these fields to gRPC in the process. A client must not.
	der := string(good.certificate.Certificate[0])
	wantOut(t, "a header with a certificate", get(with(ctx, "fanoutd-certificate-bin", der, "x-forwarded-for", "10.0.0.1"), anonymous))
	for _, name := range []string{"Fanoutd-Certificate-Bin", "Grpc-Metadata-Fanoutd-Certificate-Bin", "Grpcgateway-Fanoutd-Certificate-Bin"} {
		code, header, body := w.get(t, credential{}, "/v1/resources/config/objects/a", name, base64.StdEncoding.EncodeToString([]byte(der)))
		if code != http.StatusUnauthorized || !strings.Contains(body, "UNAUTHENTICATED") || header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: got %d %s, want 401", name, code, body)
		}
	}
	code, _, body := w.get(t, credential{bearer: "wrong"}, "/v1/resources/config/watch")
	if code != http.StatusUnauthorized {
		t.Errorf("a watch over HTTP with a wrong token: got %d %s, want 401", code, body)
	}

	reflect := func(conn *grpc.ClientConn) error { return list(reflection(ctx, t, conn)) }
	wantOut(t, "reflection", reflect(anonymous))
	if err := reflect(w.dial(t, good)); err != nil {
		t.Errorf("reflection with a certificate: %v", err)
	}
	if _, err := healthpb.NewHealthClient(anonymous).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
}

// reflection opens a stream of the reflection service.
func reflection(ctx context.Context, t *testing.T, conn *grpc.ClientConn) reflectionpb.ServerReflection_ServerReflectionInfoClient {
	t.Helper()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// list lists the services over the stream.
func list(stream reflectionpb.ServerReflection_ServerReflectionInfoClient) error {
	// Recv returns the status if Send fails.
	_ = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	_, err := stream.Recv()
	return err
}

// TestReflectionEndsWithItsCredentials checks that a stream of another service does not
// outlive its credentials either.
func TestReflectionEndsWithItsCredentials(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	w := newFixture(t, nil)
	ctx := within(t)
	conn := w.dial(t, credential{bearer: w.addToken(t, "a")})
	poll.Until(t, "the credential is accepted", func() bool { return reasonOf(get(ctx, conn)) != refused })
	stream := reflection(ctx, t, conn)
	if err := list(stream); err != nil {
		t.Fatal(err)
	}
	w.lines = nil
	w.setTokens(t)
	poll.Until(t, "the credential is refused", func() bool { return reasonOf(get(ctx, conn)) == refused })
	wantOut(t, "the stream that was open", list(stream))
}

// TestPlainTextIgnoresCertificateHeaders checks that a client without TLS cannot present a
// certificate in a header field.
func TestPlainTextIgnoresCertificateHeaders(t *testing.T) {
	w := newFixture(t, func(cfg *config.Config) {
		cfg.TLSCertFile, cfg.TLSKeyFile, cfg.TLSClientCAFile = "", "", ""
	})
	ctx := within(t)
	conn, err := grpc.NewClient(w.cfg.Listen, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	wantIn(t, "a JWT", get(with(ctx, "authorization", "Bearer "+w.jwt(t, "a", time.Now().Add(time.Minute))), conn))
	der := string(w.certificate(t, certs.Subject{CommonName: "good"}).certificate.Certificate[0])
	wantOut(t, "a header with a certificate", get(with(ctx, "fanoutd-certificate-bin", der, "x-forwarded-for", "10.0.0.1"), conn))
}

// TestConnectionsWithoutTLSOrCertificateAreRefused checks that a server that requires
// certificates refuses the connection before any request.
func TestConnectionsWithoutTLSOrCertificateAreRefused(t *testing.T) {
	w := newFixture(t, func(cfg *config.Config) { cfg.TLSClientAuth = config.ClientAuthRequired })
	ctx := within(t)
	wantIn(t, "a certificate", get(ctx, w.dial(t, w.certificate(t, certs.Subject{CommonName: "good"}))))
	plain, err := grpc.NewClient(w.cfg.Listen, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	foreign := certs.NewAuthority(t).Issue(t, certs.Subject{CommonName: "foreign"}).TLS(t)
	for what, conn := range map[string]*grpc.ClientConn{
		"plain text":             plain,
		"no certificate":         w.dial(t, credential{}),
		"another authority":      w.dial(t, credential{certificate: &foreign}),
		"an expired certificate": w.dial(t, w.certificate(t, certs.Subject{CommonName: "late", NotAfter: time.Now().Add(-time.Minute)})),
	} {
		if got := reasonOf(get(ctx, conn)); got != "Unavailable" {
			t.Errorf("%s: got %s, want Unavailable", what, got)
		}
	}
}
