package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/fanoutd/fanoutd/bench/internal/stamp"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// pages makes the requests for all objects, page by page.
type pages struct {
	path string
	// next returns the request for the page after the previous one, or nil if that was
	// the last. Before the first page the previous one is nil.
	next func(c Config, previous []byte) ([]byte, error)
}

var listers = map[string]pages{
	"fanoutd": {fanoutv1.FanoutService_List_FullMethodName, fanoutdPage},
	"etcd":    {"/etcdserverpb.KV/Range", etcdPage},
}

// listConnection lists all objects at each command to watch.
type listConnection struct {
	*watchers
	pages  pages
	number int
	conn   *grpc.ClientConn
}

func newList(p pages) connector {
	return func(w *watchers, number int) (connection, error) {
		conn, err := grpc.NewClient("passthrough:///"+w.config.Address, append(staticWindows(),
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{}), grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		)...)
		if err != nil {
			return nil, err
		}
		conn.Connect()
		return &listConnection{watchers: w, pages: p, number: number, conn: conn}, nil
	}
}

// open lists all objects, counts them, and records the time.
func (c *listConnection) open(ctx context.Context) error {
	began, objects := stamp.Now(), 0
	for request, err := c.pages.next(c.config, nil); request != nil || err != nil; {
		if err != nil {
			return err
		}
		var page []byte
		if err := c.conn.Invoke(ctx, c.pages.path, &request, &page); err != nil {
			return fmt.Errorf("list: %w", err)
		}
		for range stamp.All(page) {
			objects++
		}
		request, err = c.pages.next(c.config, page)
	}
	if objects != c.config.Keys {
		return fmt.Errorf("got a list of %d objects, want %d", objects, c.config.Keys)
	}
	c.counter.Record(c.number, stamp.Now()-began)
	return nil
}

// receive has nothing to do.
func (c *listConnection) receive() error { return nil }

func (c *listConnection) Close() error { return c.conn.Close() }

func fanoutdPage(c Config, previous []byte) ([]byte, error) {
	request := &fanoutv1.ListRequest{Resource: Resource, PageSize: int32(c.PageSize)}
	if previous != nil {
		const fieldToken = 3
		token, err := last(previous, fieldToken)
		if err != nil || len(token) == 0 {
			return nil, err
		}
		request.PageToken = string(token)
	}
	return proto.Marshal(request)
}

// etcdPage reads all pages at the revision of the first.
func etcdPage(c Config, previous []byte) ([]byte, error) {
	request := &etcdserverpb.RangeRequest{Key: []byte(Prefix), RangeEnd: []byte(prefixEnd), Limit: int64(c.PageSize)}
	if previous != nil {
		const fieldHeader, fieldObjects, fieldMore, fieldKey = 1, 2, 3, 1
		more, err := has(previous, fieldMore)
		if err != nil || !more {
			return nil, err
		}
		object, err := last(previous, fieldObjects)
		if err != nil {
			return nil, err
		}
		key, err := last(object, fieldKey)
		if err != nil {
			return nil, err
		}
		encoded, err := last(previous, fieldHeader)
		if err != nil {
			return nil, err
		}
		var header etcdserverpb.ResponseHeader
		if err := proto.Unmarshal(encoded, &header); err != nil {
			return nil, fmt.Errorf("read a page: %w", err)
		}
		request.Key, request.Revision = append(bytes.Clone(key), 0), header.Revision
	}
	return proto.Marshal(request)
}

// last returns the last value of a bytes field, or nil. It does not decode objects.
func last(message []byte, field protowire.Number) (value []byte, err error) {
	err = each(message, func(number protowire.Number, kind protowire.Type, content []byte) {
		if number == field && kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(content)
		}
	})
	return value, err
}

// has reports whether a message has a field.
func has(message []byte, field protowire.Number) (found bool, err error) {
	err = each(message, func(number protowire.Number, _ protowire.Type, _ []byte) { found = found || number == field })
	return found, err
}

func each(message []byte, do func(number protowire.Number, kind protowire.Type, content []byte)) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errors.Join(errors.New("read a page"), protowire.ParseError(n))
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return errors.Join(errors.New("read a page"), protowire.ParseError(n))
		}
		do(number, kind, message[:n])
		message = message[n:]
	}
	return nil
}
