package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	metrics "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/stats"

	"github.com/fanoutd/fanoutd/internal/version"
)

// Config configures tracing. Endpoint and Log are required.
type Config struct {
	// Endpoint is the URL of a collector with OTLP over gRPC: http://host:port, or
	// https://host:port for TLS. OpenTelemetry's environment variables, such as
	// OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_CERTIFICATE, configure the rest.
	Endpoint string

	// Ratio is the fraction of requests that are traced, from 0 to 1. A sampling decision
	// of the caller takes precedence.
	Ratio float64

	Log *slog.Logger
}

// Tracing creates traces and sends them to the collector.
type Tracing struct {
	provider *sdk.TracerProvider
	exporter sdk.SpanExporter
	writes   []*WriteTracer
}

// New returns a Tracing. It does not wait for a connection to the collector. Traces that
// cannot be sent are logged and dropped; requests never wait for the collector.
func New(ctx context.Context, cfg Config) (*Tracing, error) {
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(cfg.Endpoint))
	if err != nil {
		return nil, fmt.Errorf("create the exporter of traces to %s: %w", cfg.Endpoint, err)
	}
	self, err := resource.Merge(processResource(), resource.Environment())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("parse OTEL_RESOURCE_ATTRIBUTES: %w", err), exporter.Shutdown(ctx))
	}
	// OpenTelemetry reports errors of background work only to this global handler.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { cfg.Log.Warn("could not send traces", "error", err) }))
	return &Tracing{exporter: exporter, provider: sdk.NewTracerProvider(
		sdk.WithBatcher(exporter),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(cfg.Ratio))),
		sdk.WithResource(self),
	)}, nil
}

// processResource returns the attributes that identify this process among several servers.
func processResource() *resource.Resource {
	about := []attribute.KeyValue{
		attribute.String("service.name", "fanoutd"), attribute.String("service.version", version.Get().Version),
		attribute.Int("process.pid", os.Getpid()),
	}
	if host, err := os.Hostname(); err == nil { // in Kubernetes: the name of the pod
		about = append(about, attribute.String("host.name", host))
	}
	return resource.NewSchemaless(about...)
}

// scope is the instrumentation scope of the spans of a WriteTracer.
const scope = "github.com/fanoutd/fanoutd/internal/tracing"

// WriteTracer returns the tracer of writes of a resource. The caller calls it before the
// server accepts requests.
func (t *Tracing) WriteTracer(resource string) *WriteTracer {
	w := newWriteTracer(t.provider.Tracer(scope), resource)
	t.writes = append(t.writes, w)
	return w
}

// Requests returns a handler that creates a span for each request to a fanout.v1 service.
// Health checks and reflection have no spans.
func (t *Tracing) Requests() stats.Handler {
	return withoutPayloads{otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.provider),
		otelgrpc.WithMeterProvider(metrics.NewMeterProvider()),
		otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool { return strings.HasPrefix(info.FullMethodName, "/fanout.v1.") }),
	)}
}

// withoutPayloads hides messages from a handler. Otherwise the handler would look up the
// request of each message although it creates no span for messages.
type withoutPayloads struct{ stats.Handler }

// HandleRPC implements [stats.Handler].
func (h withoutPayloads) HandleRPC(ctx context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.InPayload, *stats.OutPayload:
	default:
		h.Handler.HandleRPC(ctx, s)
	}
}

// Close sends the remaining traces until ctx is done. The caller calls it after all requests
// have ended.
func (t *Tracing) Close(ctx context.Context) error {
	for _, w := range t.writes {
		w.close()
	}
	err := t.provider.Shutdown(ctx)
	// If Shutdown gave up, it continues in the background until the exporter shuts down.
	if err = errors.Join(err, t.exporter.Shutdown(ctx)); err != nil {
		return fmt.Errorf("send the last traces: %w", err)
	}
	return nil
}
