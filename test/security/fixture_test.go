package security

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/jwts"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

func TestMain(m *testing.M) {
	// The library that rotates the audit log leaves a goroutine for each log.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}

func within(t *testing.T) context.Context {
	t.Helper()
	return poll.Context(t)
}

const (
	issuer   = "https://login.example.com"
	audience = "fanoutd"
	serverIs = "localhost" // the name in its certificate
)

// fixture is a server that accepts every kind of credentials, and everything that issues
// them.
type fixture struct {
	cfg       config.Config
	authority *certs.Authority
	server    certs.Files
	lines     []string // of the token file
	key       jwts.Key
	log       logBuffer
}

// newFixture starts a server.
func newFixture(t *testing.T, change func(*config.Config)) *fixture {
	t.Helper()
	w := &fixture{cfg: inprocess.Config(t), authority: certs.NewAuthority(t), key: jwts.NewKey(t, "first")}
	w.server = w.authority.Issue(t, certs.Server).Files(t)
	dir := t.TempDir()
	w.cfg.AdminListen = loopback.FreeAddress(t)
	w.cfg.TLSCertFile, w.cfg.TLSKeyFile, w.cfg.TLSClientCAFile = w.server.Cert, w.server.Key, filepath.Join(dir, "clients.pem")
	w.cfg.TokenFile, w.cfg.JWTJWKSFile = filepath.Join(dir, "tokens"), filepath.Join(dir, "jwks.json")
	w.cfg.JWTIssuer, w.cfg.JWTAudience = issuer, audience
	certs.Write(t, w.cfg.TLSClientCAFile, w.authority.PEM())
	w.setTokens(t)
	w.setKeys(t, w.key)
	if change != nil {
		change(&w.cfg)
	}
	if problems := w.cfg.Problems(); len(problems) > 0 {
		t.Fatal(problems)
	}
	inprocess.StartLogging(t, w.cfg, slog.New(slog.NewJSONHandler(&w.log, nil)))
	return w
}

// addToken adds a token to the token file.
func (w *fixture) addToken(t *testing.T, name string) (token string) {
	t.Helper()
	token, line, err := access.NewToken(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.lines = append(w.lines, line)
	w.setTokens(t)
	return token
}

// setTokens writes the token file.
func (w *fixture) setTokens(t *testing.T) {
	t.Helper()
	certs.Write(t, w.cfg.TokenFile, []byte(strings.Join(w.lines, "\n")))
}

// setKeys writes the file with the keys of the JWT issuer.
func (w *fixture) setKeys(t *testing.T, keys ...jwts.Key) {
	t.Helper()
	certs.Write(t, w.cfg.JWTJWKSFile, jwts.Set(t, keys...))
}

// jwt returns a JWT for a name.
func (w *fixture) jwt(t *testing.T, name string, expires time.Time) string {
	t.Helper()
	return w.key.Sign(t, jwts.Claims{"iss": issuer, "aud": audience, "sub": name, "exp": expires.Unix()})
}

// credential is what a caller presents.
type credential struct {
	certificate *tls.Certificate
	bearer      string
}

func (w *fixture) certificate(t *testing.T, s certs.Subject) credential {
	t.Helper()
	pair := w.authority.Issue(t, s).TLS(t)
	return credential{certificate: &pair}
}

// tls returns the TLS configuration of a caller.
func (w *fixture) tls(s credential) *tls.Config {
	c := &tls.Config{RootCAs: w.authority.Pool(), ServerName: serverIs}
	if s.certificate != nil {
		c.Certificates = []tls.Certificate{*s.certificate}
	}
	return c
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (s credential) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if s.bearer == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + s.bearer}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (credential) RequireTransportSecurity() bool { return true }

// dial connects a caller over gRPC.
func (w *fixture) dial(t *testing.T, s credential) *grpc.ClientConn {
	return w.dialAt(t, w.cfg.Listen, s)
}

// dialAdmin connects a caller to the gRPC services of the admin listener.
func (w *fixture) dialAdmin(t *testing.T, s credential) *grpc.ClientConn {
	return w.dialAt(t, w.cfg.AdminListen, s)
}

func (w *fixture) dialAt(t *testing.T, address string, s credential) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(w.tls(s))), grpc.WithPerRPCCredentials(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// get sends an HTTP request, and returns its status, header and body. More has names and
// values of header fields.
func (w *fixture) get(t *testing.T, s credential, path string, more ...string) (code int, header http.Header, body string) {
	t.Helper()
	resp := w.open(t, s, path, more...)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// open sends an HTTP request whose response is a stream.
func (w *fixture) open(t *testing.T, s credential, path string, more ...string) *http.Response {
	t.Helper()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: w.tls(s), ForceAttemptHTTP2: true, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(within(t), http.MethodGet, "https://"+w.cfg.AdminListen+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if s.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+s.bearer)
	}
	for i := 0; i < len(more); i += 2 {
		req.Header.Set(more[i], more[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// reasonOf returns the code and the reason of an error.
func reasonOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == "fanoutd.github.io" {
			return status.Code(err).String() + " " + info.GetReason()
		}
	}
	return status.Code(err).String()
}

const refused = "Unauthenticated UNAUTHENTICATED"

// get reads an object over a connection.
func get(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := fanoutv1.NewFanoutServiceClient(conn).Get(ctx, &fanoutv1.GetRequest{Resource: "config", Key: "a"})
	return err
}

// wantIn fails the test unless the caller was accepted. KEY_NOT_FOUND is fine.
func wantIn(t *testing.T, what string, err error) {
	t.Helper()
	if got := reasonOf(err); got != "NotFound KEY_NOT_FOUND" {
		t.Errorf("%s: got %s (%v), want access", what, got, err)
	}
}

func wantOut(t *testing.T, what string, err error) {
	t.Helper()
	if got := reasonOf(err); got != refused {
		t.Errorf("%s: got %s (%v), want a refusal", what, got, err)
	}
}

// put writes a text.
func put(ctx context.Context, t *testing.T, conn *grpc.ClientConn, key, text string) (revision int64) {
	t.Helper()
	resp, err := fanoutv1.NewStoreServiceClient(conn).Put(ctx, &fanoutv1.PutRequest{
		Resource: "config", Put: &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: text}},
	}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetRevision()
}

// watch opens a watch from now, and returns it when it has begun.
func watch(ctx context.Context, t *testing.T, conn *grpc.ClientConn) fanoutv1.FanoutService_WatchClient {
	t.Helper()
	stream, err := fanoutv1.NewFanoutServiceClient(conn).Watch(ctx, &fanoutv1.WatchRequest{
		Resource: "config", Begin: &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}},
	}, grpc.WaitForReady(true))
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// rest reads a watch to its end.
func rest(stream fanoutv1.FanoutService_WatchClient) (messages []*fanoutv1.WatchResponse, end error) {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return messages, nil
		}
		if err != nil {
			return messages, err
		}
		messages = append(messages, m)
	}
}

// identities returns the names of all watchers.
func identities(ctx context.Context, t *testing.T, conn *grpc.ClientConn) (names []string) {
	t.Helper()
	resp, err := fanoutv1.NewAdminServiceClient(conn).ListWatchers(ctx, &fanoutv1.ListWatchersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range resp.GetWatchers() {
		names = append(names, w.GetIdentity())
	}
	return names
}

// with returns a context with header fields.
func with(ctx context.Context, fields ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, fields...)
}

// shownAt returns the name in the certificate that the server credential on a new connection.
func (w *fixture) shownAt(t *testing.T, address string) string {
	t.Helper()
	cfg := w.tls(credential{})
	cfg.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", address, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}
