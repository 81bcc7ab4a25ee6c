package admin

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// unreadable answers each Get with an object that the server cannot decrypt.
type unreadable struct{ grpc.ClientConnInterface }

func (unreadable) Invoke(_ context.Context, _ string, _, response any, _ ...grpc.CallOption) error {
	response.(*fanoutv1.GetResponse).Object = &fanoutv1.Object{Key: "a", Opaque: true, ModRevision: 7}
	return nil
}

// A value that the server cannot decrypt is not an empty value.
func TestUnreadableValuesAreErrors(t *testing.T) {
	address := serve(t, Config{Conn: unreadable{}, Log: slog.New(slog.DiscardHandler)})
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
