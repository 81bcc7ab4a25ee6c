package server_test

import (
	"strings"
	"testing"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Each slow request is one log line that names the request and the client.
func TestSlowRequestsAreLogged(t *testing.T) {
	in := start(t, settings{slow: time.Nanosecond, policy: aliceMay}).as(t, "alice") // every request is slow
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	in.put(ctx, t, config, "shop/1", "v")
	if _, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, Scope: prefix("shop")}); err != nil {
		t.Fatal(err)
	}
	req := &fanoutv1.WatchRequest{Resource: config, Scope: prefix("shop")}
	in.watch(ctx, t, req).collect().await(ctx, t, synced)
	in.subscribe(ctx, t).start(1, req).catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	for _, want := range []line{
		{"method": "/fanout.v1.StoreService/Put", "what": "request", "scope": "key shop/1"},
		{"method": "/fanout.v1.FanoutService/List", "what": "request", "scope": "prefix shop"},
		{"method": "/fanout.v1.FanoutService/Watch", "what": "first message", "scope": "prefix shop"},
		{"method": "/fanout.v1.FanoutService/Watch", "what": "catch-up", "scope": "prefix shop"},
		{"method": "/fanout.v1.FanoutService/Subscribe", "what": "first message", "scope": "prefix shop"},
		{"method": "/fanout.v1.FanoutService/Subscribe", "what": "catch-up", "scope": "prefix shop"},
	} {
		want["msg"], want["level"], want["resource"], want["identity"] = "slow", "WARN", config, "alice"
		got := in.lines.await(ctx, t, want)
		if peer, _ := got["peer"].(string); !strings.HasPrefix(peer, "127.0.0.1:") {
			t.Errorf("got peer %q in %v, want a loopback address", peer, got)
		}
		if took, _ := got["duration"].(float64); took <= 0 {
			t.Errorf("got duration %v in %v, want more than 0", took, got)
		}
	}
	if n := in.server.SlowRequests(); n < 6 {
		t.Errorf("got %d slow requests, want at least 6", n)
	}
}

func TestFastRequestsAreNotLoggedAsSlow(t *testing.T) {
	for name, least := range map[string]time.Duration{"off": 0, "an hour": time.Hour} {
		t.Run(name, func(t *testing.T) {
			in := start(t, settings{slow: least})
			ctx := within(t)
			in.awaitLoaded(ctx, t)
			in.put(ctx, t, config, "k", "v")
			req := &fanoutv1.WatchRequest{Resource: config}
			in.watch(ctx, t, req).collect().await(ctx, t, synced)
			in.subscribe(ctx, t).start(1, req).catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
			if n := in.server.SlowRequests(); n != 0 || strings.Contains(in.lines.text(), `"msg":"slow"`) {
				t.Errorf("got %d slow requests, want 0; the log is\n%s", n, in.lines.text())
			}
		})
	}
}
