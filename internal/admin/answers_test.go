package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// answers is a connection to a gRPC server that answers each request in one way.
type answers func(response any) error

func (f answers) Invoke(_ context.Context, _ string, _, response any, _ ...grpc.CallOption) error {
	return f(response)
}

func (answers) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.ErrUnsupported
}

// A value that the server cannot decrypt is not an empty value.
func TestUnreadableValuesAreErrors(t *testing.T) {
	undecrypted := func(response any) error {
		response.(*fanoutv1.GetResponse).Object = &fanoutv1.Object{Key: "a", Opaque: true, ModRevision: 7}
		return nil
	}
	address := serve(t, Config{Conn: answers(undecrypted), Log: slog.New(slog.DiscardHandler)})
	for query, want := range map[string]int{"?raw": http.StatusUnprocessableEntity, "": http.StatusOK} {
		resp, err := http.Get("http://" + address + "/v1/resources/config/objects/a" + query)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want || query != "" != strings.Contains(string(body), "VALUE_UNREADABLE") || resp.Header.Get("ETag") != "" {
			t.Errorf("%q: got %d %v %s, %v", query, resp.StatusCode, resp.Header, body, err)
		}
	}
}

// An error that passes is 200 only in a stream of events.
func TestErrorsThatPassHaveTheirStatus(t *testing.T) {
	later := detailed(codes.Unavailable, "not yet", &errdetails.RetryInfo{RetryDelay: durationpb.New(5 * time.Second)})
	address := serve(t, Config{Conn: answers(func(any) error { return later.Err() }), Log: slog.New(slog.DiscardHandler)})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/v1/resources/config/objects/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", eventStreamType)
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusServiceUnavailable || got != "application/json" || resp.Header.Get("Retry-After") != "5" {
		t.Errorf("got %d %v", resp.StatusCode, resp.Header)
	}
	if event, err := marshalEnd(later.Proto()); err != nil || !strings.HasPrefix(string(event), "event: status\nretry: 5000\ndata: {") {
		t.Errorf("the event is %q, %v", event, err)
	}
}
