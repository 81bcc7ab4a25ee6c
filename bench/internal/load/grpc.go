package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"

	"github.com/fanoutd/fanoutd/bench/internal/stamp"
)

// staticWindow is a fixed flow-control window. Without it, grpc-go estimates the bandwidth
// with pings, which cost the server more than the events.
const staticWindow = 1 << 20

// grpcConnection is a connection of grpc-go. Messages are not decoded.
type grpcConnection struct {
	*watchers
	service  service
	from, to int // its watchers
	conn     *grpc.ClientConn
	ctx      context.Context // of its streams
	cancel   context.CancelFunc
	streams  []grpc.ClientStream
	readers  []*streamReader // by stream
}

// newGRPC returns a connector with these options.
func newGRPC(s service, options ...grpc.DialOption) connector {
	options = append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{}), grpc.MaxCallRecvMsgSize(math.MaxInt32)),
	)
	return func(w *watchers, number int) (connection, error) {
		conn, err := grpc.NewClient("passthrough:///"+w.config.Address, options...)
		if err != nil {
			return nil, err
		}
		from, to := w.config.share(number)
		ctx, cancel := context.WithCancel(context.Background())
		return &grpcConnection{watchers: w, service: s, from: from, to: to, conn: conn, ctx: ctx, cancel: cancel}, nil
	}
}

func staticWindows() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithInitialWindowSize(staticWindow), grpc.WithInitialConnWindowSize(staticWindow)}
}

func (c *grpcConnection) open(ctx context.Context) error {
	if c.config.Snapshot && c.service.readRequest != nil {
		return errors.New("this client cannot ask for the state; the raw one can")
	}
	stop := context.AfterFunc(ctx, c.cancel)
	defer stop()
	for i := c.from; i < c.to; i++ {
		watch := (i - c.from) % c.config.streamSize()
		request, err := c.service.request(c.config, i, watch)
		if err != nil {
			return err
		}
		if watch == 0 {
			stream, err := c.conn.NewStream(c.ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, c.service.path)
			if err != nil {
				return fmt.Errorf("open a stream: %w", err)
			}
			c.readers = append(c.readers, c.stream(c.service, len(c.streams), i, c.to))
			c.streams = append(c.streams, stream)
		}
		stream := c.streams[len(c.streams)-1]
		if err := stream.SendMsg(&request); err != nil {
			return fmt.Errorf("send a request: %w", err)
		}
		if c.service.half {
			if err := stream.CloseSend(); err != nil {
				return fmt.Errorf("end the requests: %w", err)
			}
		}
	}
	for i := range c.streams {
		if err := c.register(i); err != nil {
			return err
		}
	}
	return nil
}

// register waits until all watches of a stream are registered.
func (c *grpcConnection) register(stream int) error {
	reader := c.readers[stream]
	waiting := map[int]bool{}
	for i := reader.first; i < reader.end; i++ {
		waiting[i] = true
	}
	for len(waiting) > 0 {
		watchers, err := c.next(stream)
		if err != nil {
			return err
		}
		for _, watcher := range watchers {
			delete(waiting, watcher)
		}
	}
	return nil
}

// next receives the next message of a stream and returns its watchers, valid until the next
// call.
func (c *grpcConnection) next(stream int) (watchers []int, err error) {
	var message []byte
	if err := c.streams[stream].RecvMsg(&message); err != nil {
		return nil, fmt.Errorf("stream %d: %w", stream, err)
	}
	return c.readers[stream].receive(message, stamp.Now())
}

// receive receives until all streams have ended, and returns the first error. When one
// stream ends, it ends the others.
func (c *grpcConnection) receive() error {
	var all sync.WaitGroup
	var once sync.Once
	var reason error
	for stream := range c.streams {
		all.Go(func() {
			for {
				if _, err := c.next(stream); err != nil {
					once.Do(func() { reason = err })
					c.cancel()
					return
				}
			}
		})
	}
	all.Wait()
	return reason
}

func (c *grpcConnection) Close() error {
	c.cancel()
	return c.conn.Close()
}

// bytesCodec is a gRPC codec that passes bytes through.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
