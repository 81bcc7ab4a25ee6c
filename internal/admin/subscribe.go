package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// subscribePath is the path of Subscribe. Its body contains any number of requests, one after
// another, and the response is a stream.
const subscribePath = "/v1/subscribe"

// checkRequests returns an error if a body is not a sequence of requests of Subscribe. The gateway
// would send those before the fault, and answer nothing about the others.
func checkRequests(body []byte) error {
	next := new(lines).NewDecoder(bytes.NewReader(body))
	for n := 1; ; n++ {
		var request fanoutv1.SubscribeRequest
		err := next.Decode(&request)
		switch {
		case errors.Is(err, io.EOF) && n == 1:
			return errors.New("the body must have at least one request")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("request %d: %w", n, err)
		case request.GetRequest() == nil:
			return fmt.Errorf("request %d: it must have a start or another kind of request", n)
		}
	}
}

// requestBody is the body of a stream. The stream lasts long after its requests have been sent, so
// their memory becomes free at the end of the body.
type requestBody struct {
	rest *bytes.Reader // nil at the end
	done func()
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	if b.rest == nil {
		return 0, io.EOF
	}
	n, err := b.rest.Read(p)
	if err != nil {
		b.rest = nil
		b.done()
	}
	return n, err
}

// Close implements io.Closer.
func (*requestBody) Close() error { return nil }
