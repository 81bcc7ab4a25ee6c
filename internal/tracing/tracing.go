package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
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
)

// Config says what is traced, and where traces go. Endpoint and Log are required.
type Config struct {
	// Endpoint is the URL of a collector that speaks OTLP over gRPC: http://host:port,
	// or https://host:port for TLS. The variables of OpenTelemetry, such as
	// OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_CERTIFICATE, say the rest.
	Endpoint string

	// Ratio is the part of the requests that is traced, from 0 to 1. Where the caller
	// has decided already, its decision counts.
	Ratio float64

	Log *slog.Logger
}

// Tracing makes traces and sends them.
type Tracing struct {
	provider *sdk.TracerProvider
	exporter sdk.SpanExporter
	trails   []*WriteTracer
}

// New returns what makes traces. It does not wait for a connection to the collector:
// what cannot be sent is logged and lost, and nobody waits for it.
func New(ctx context.Context, cfg Config) (*Tracing, error) {
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(cfg.Endpoint))
	if err != nil {
		return nil, fmt.Errorf("send traces to %s: %w", cfg.Endpoint, err)
	}
	self, err := resource.Merge(ourselves(), resource.Environment())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read what OTEL_RESOURCE_ATTRIBUTES says: %w", err), exporter.Shutdown(ctx))
	}
	// The library knows one place only for what goes wrong behind everybody's back.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { cfg.Log.Warn("traces are lost", "error", err) }))
	return &Tracing{exporter: exporter, provider: sdk.NewTracerProvider(
		sdk.WithBatcher(exporter),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(cfg.Ratio))),
		sdk.WithResource(self),
	)}, nil
}

// ourselves returns what tells this process from others of several servers.
func ourselves() *resource.Resource {
	version := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	about := []attribute.KeyValue{
		attribute.String("service.name", "fanoutd"), attribute.String("service.version", version),
		attribute.Int("process.pid", os.Getpid()),
	}
	if host, err := os.Hostname(); err == nil { // in Kubernetes the name of the pod
		about = append(about, attribute.String("host.name", host))
	}
	return resource.NewSchemaless(about...)
}

// scope is what made the spans that are not of requests.
const scope = "github.com/fanoutd/fanoutd/internal/tracing"

// WriteTracer returns what follows the writes of a resource. It is called before anything
// is served.
func (t *Tracing) WriteTracer(resource string) *WriteTracer {
	trail := newTrail(t.provider.Tracer(scope), resource)
	t.trails = append(t.trails, trail)
	return trail
}

// Requests returns what makes a span of each request to the services of the protocol.
// Health checks and reflection are not worth one.
func (t *Tracing) Requests() stats.Handler {
	return light{otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.provider),
		otelgrpc.WithMeterProvider(metrics.NewMeterProvider()),
		otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool { return strings.HasPrefix(info.FullMethodName, "/fanout.v1.") }),
	)}
}

// light keeps single messages away from a handler that would look up the request of
// each of them and then do nothing.
type light struct{ stats.Handler }

// HandleRPC implements [stats.Handler].
func (l light) HandleRPC(ctx context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.InPayload, *stats.OutPayload:
	default:
		l.Handler.HandleRPC(ctx, s)
	}
}

// Close sends what has not been sent, until ctx is done. It is called when requests
// have ended.
func (t *Tracing) Close(ctx context.Context) error {
	for _, trail := range t.trails {
		trail.close()
	}
	err := t.provider.Shutdown(ctx)
	// If that has given up, what it does goes on in the background until this ends it.
	if err = errors.Join(err, t.exporter.Shutdown(ctx)); err != nil {
		return fmt.Errorf("send the last traces: %w", err)
	}
	return nil
}
