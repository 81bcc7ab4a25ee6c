package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/client"
)

// exitOnce ends the goroutine at the first call.
func exitOnce() func() {
	called := false
	return func() {
		if !called {
			called = true
			runtime.Goexit()
		}
	}
}

func TestATokenSourceThatEndsItsGoroutineHasFailed(t *testing.T) {
	t.Run("a write", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			exit := exitOnce()
			r := dialAnswering(t, &answeringServer{errors: []error{nil}}, client.WithTokenSource(func(context.Context) (string, error) {
				exit()
				return "token", nil
			}))
			ended := make(chan error, 1)
			go func() {
				defer close(ended)
				ended <- putOne(r)
			}()
			if err := <-ended; status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "runtime.Goexit") {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("a watch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			exit := exitOnce()
			r := connectTo(t, &scriptedServer{script: eachWatch}, client.WithTokenSource(func(context.Context) (string, error) {
				exit()
				return "token", nil
			}))
			inf := client.NewInformer(r, number)
			run(t, inf)
			if err := inf.WaitForSync(t.Context()); err != nil {
				t.Errorf("got %v", err)
			}
		})
	})
}

func TestACallbackOfTLSThatEndsItsGoroutineHasFailed(t *testing.T) {
	t.Parallel()
	known := httptest.NewTLSServer(nil)
	t.Cleanup(known.Close)
	address := serveTokens(t, &tokenServer{}, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: known.TLS.Certificates, ClientAuth: tls.RequestClientCert,
	})))
	trust := x509.NewCertPool()
	trust.AddCert(known.Certificate())
	for name, set := range map[string]func(*tls.Config){
		"GetClientCertificate": func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { runtime.Goexit(); return nil, nil }
		},
		"VerifyPeerCertificate": func(c *tls.Config) {
			c.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error { runtime.Goexit(); return nil }
		},
		"VerifyConnection": func(c *tls.Config) {
			c.VerifyConnection = func(tls.ConnectionState) error { runtime.Goexit(); return nil }
		},
	} {
		config := &tls.Config{RootCAs: trust}
		set(config)
		if err := putOne(newClient(t, address, client.WithTLS(config)).Resource("config")); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "runtime.Goexit") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
