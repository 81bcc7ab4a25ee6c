package packaging

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// promtool returns the path of Prometheus' rule checker.
func promtool(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"promtool", filepath.Join(root, "bin/promtool")} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, "promtool is missing")
	panic("unreachable")
}

// alerts returns the sorted names of all alerts.
func alerts(t *testing.T) (names []string) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct{ Alert string }
		}
	}
	if err := yaml.Unmarshal(read(t, rules), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				names = append(names, r.Alert)
			}
		}
	}
	slices.Sort(names)
	return names
}

const (
	rules    = "deploy/prometheus/alerts.yaml"
	interval = "15s" // of scrapes and of rule evaluations
	here     = `job="f", instance="a"`
	config   = here + `, resource="config"`
)

// situation is what Prometheus scrapes in 15 minutes, and whether an alert fires.
type situation struct {
	what   string
	series string // one line for each, in promtool's notation
	fires  bool   // whether the alert fires at some time
}

// test returns the situation as a promtool test for an alert.
func (s situation) test(alert string) map[string]any {
	series := []map[string]string{}
	for line := range strings.Lines(s.series) {
		name, values, _ := strings.Cut(line, "} ")
		series = append(series, map[string]string{"series": name + "}", "values": strings.TrimSpace(values)})
	}
	count := 0
	if s.fires {
		count = 1
	}
	return map[string]any{
		"name": alert + ": " + s.what, "interval": interval, "input_series": series,
		"promql_expr_test": []any{map[string]any{
			"expr":      fmt.Sprintf(`count(max_over_time(ALERTS{alertname=%q, alertstate="firing"}[15m])) or vector(0)`, alert),
			"eval_time": "15m", "exp_samples": []any{map[string]any{"labels": "{}", "value": count}},
		}},
	}
}

// TestAlerts checks that each alert fires when it should, and not in similar situations.
func TestAlerts(t *testing.T) {
	steady := func(name, labels, values string) string { return name + "{" + labels + "} " + values + "\n" }
	handled := func(method, kind, code, values string) string {
		return steady("grpc_server_handled_total", here+`, grpc_service="fanout.v1.X", grpc_method="`+method+`", grpc_type="`+kind+`", grpc_code="`+code+`"`, values)
	}
	ended := func(code, values string) string {
		return steady("fanoutd_subscribe_watches_ended_total", here+`, grpc_code="`+code+`"`, values)
	}
	etcd := func(operation, requests, failures string) string {
		labels := here + `, operation="` + operation + `"`
		return steady("fanoutd_etcd_requests_total", labels, requests) + steady("fanoutd_etcd_request_errors_total", labels, failures)
	}
	cache := func(revision, lag string) string {
		return steady("fanoutd_cacher_revision", config, revision) + steady("fanoutd_cacher_lag_revisions", config, lag)
	}
	watchers := func(n, blocked string) string {
		return steady("fanoutd_watchers", config+`, state="live"`, n) + steady("fanoutd_watchers", config+`, state="catching_up"`, "0x60") +
			steady("fanoutd_watchers_blocked", config, blocked)
	}
	took := func(upTo, all string) string {
		const name = "fanoutd_watch_propagation_seconds_bucket"
		return steady(name, config+`, le="0.01"`, upTo) + steady(name, config+`, le="5"`, all) + steady(name, config+`, le="+Inf"`, all)
	}
	applied := func(upToAMinute, later string) string {
		const name = "fanoutd_watchers_by_applied_lag"
		return steady(name, config+`, lag="1m"`, upToAMinute) + steady(name, config+`, lag="1h"`, later)
	}
	behind := func(kind, values string) string {
		return steady("fanoutd_watch_catch_ups_total", config+`, cause="behind", kind="`+kind+`"`, values)
	}
	good := func(from, until string) string {
		return steady("fanoutd_certificate_not_before_timestamp_seconds", here, from) + steady("fanoutd_certificate_not_after_timestamp_seconds", here, until)
	}
	situations := map[string][]situation{
		"FanoutdDown": {
			{"the target is gone", "up{" + here + "} 1x20 0x40\n" + steady("fanoutd_connections", here, "5x20 stale"), true},
			{"it was restarted", "up{" + here + "} 1x20 0 0 0 1x30\n" + steady("fanoutd_connections", here, "5x20 stale _ _ 5x30"), false},
			{"another program is gone", "up{" + here + "} 1x20 0x40\n", false},
		},
		"FanoutdRestarts": {
			{"again and again", steady("process_start_time_seconds", here, "1x9 2x9 3x9 4x9") + steady("fanoutd_connections", here, "5x40"), true},
			{"once", steady("process_start_time_seconds", here, "1x9 2x50") + steady("fanoutd_connections", here, "5x60"), false},
			{"another program", steady("process_start_time_seconds", here, "1x9 2x9 3x9 4x9"), false},
		},
		"FanoutdNotLoaded": {
			{"never", steady("fanoutd_resource_loaded", config, "0x40"), true},
			{"after a while", steady("fanoutd_resource_loaded", config, "0x10 1x40"), false},
		},
		"FanoutdCertificateExpires": {
			{"not replaced", good("0x60", "950x60"), true},
			{"it is replaced at two thirds", good("0x40 600x20", "1000x40 1600x20"), false},
		},
		"FanoutdCutOff": {
			{"etcd is away", steady("fanoutd_resource_loaded", config, "1x40") + steady("fanoutd_resource_following", config, "1x10 0x30"), true},
			{"an election", steady("fanoutd_resource_loaded", config, "1x40") + steady("fanoutd_resource_following", config, "1x10 0 0 1x30"), false},
			{"it is loading", steady("fanoutd_resource_loaded", config, "0x40") + steady("fanoutd_resource_following", config, "0x40"), false},
		},
		"FanoutdCacheBehind": {
			{"falling behind", cache("0+100x60", "0+50x60"), true},
			{"no progress", cache("0x60", "0+50x60"), true},
			{"quiet beside a busy prefix", cache("0+15000x60", "4900x60"), false},
			{"etcd was away", cache("1000x20 1000x20 9000x20", "0x20 _x20 0x20"), false},
			{"etcd was restored", cache("9000x20 100x40", "0x60"), false},
		},
		"FanoutdInterrupted": {
			{"every minute", steady("fanoutd_cacher_interruptions_total", config, "0x3 1x3 2x3 3x3 4x3 5x3 6x3 7x3 8x3"), true},
			{"three times", steady("fanoutd_cacher_interruptions_total", config, "0x3 1x3 2x3 3x30"), false},
		},
		"FanoutdRelists": {
			{"twice", steady("fanoutd_cacher_relists_total", config, "0x20 1x20 2x20"), true},
			{"once", steady("fanoutd_cacher_relists_total", config, "0x20 1x40"), false},
		},
		"FanoutdMismatch": {
			{"one", steady("fanoutd_cacher_mismatches_total", config, "0x20 1x40"), true},
			{"none", steady("fanoutd_cacher_mismatches_total", config, "0x60"), false},
		},
		"FanoutdDecodeFailures": {
			{"a new one", steady("fanoutd_decode_failures_total", config, "7x50 8x20") + steady("fanoutd_cacher_undecryptable_objects", config, "0x70"), true},
			{"present at the start", steady("fanoutd_decode_failures_total", config, "_x5 7x10"), true},
			{"none", steady("fanoutd_decode_failures_total", config, "0x60"), false},
			{"a key was missing", steady("fanoutd_decode_failures_total", config, "0x10 7x50") + steady("fanoutd_cacher_undecryptable_objects", config, "0x10 7x8 0x42"), false},
			{"a key is missing", steady("fanoutd_decode_failures_total", config, "0x10 7x50") + steady("fanoutd_cacher_undecryptable_objects", config, "0x10 7x50"), false},
		},
		"FanoutdUndecryptable": {
			{"some", steady("fanoutd_cacher_undecryptable_objects", config, "0x10 3x10"), true},
			{"none", steady("fanoutd_cacher_undecryptable_objects", config, "0x60"), false},
		},
		"FanoutdValidationDiffers": {
			{"two files", steady("fanoutd_validation_info", config+`, hash="a"`, "1x60") + steady("fanoutd_validation_info", `job="f", instance="b", resource="config", hash="b"`, "1x60"), true},
			{"one without rules", steady("fanoutd_validation_info", config+`, hash="a"`, "1x60") + steady("fanoutd_validation_info", `job="f", instance="b", resource="config", hash="none"`, "1x60"), true},
			{"a rollout", steady("fanoutd_validation_info", config+`, hash="a"`, "1x10 stale") + steady("fanoutd_validation_info", config+`, hash="b"`, "_x10 1x50") + steady("fanoutd_validation_info", `job="f", instance="b", resource="config", hash="b"`, "1x60"), false},
			{"two resources", steady("fanoutd_validation_info", config+`, hash="a"`, "1x60") + steady("fanoutd_validation_info", here+`, resource="other", hash="b"`, "1x60"), false},
		},
		"FanoutdValidationFile": {
			{"broken", steady("fanoutd_validation_file_unusable", config, "0x20 1x20"), true},
			{"while it is written", steady("fanoutd_validation_file_unusable", config, "0x20 1 0x20"), false},
		},
		"FanoutdHistoryNotPruned": {
			{"no search for an hour", steady("fanoutd_history_prune_lag_seconds", config, "3601x60"), true},
			{"a search 15 minutes ago", steady("fanoutd_history_prune_lag_seconds", config, "900x60"), false},
		},
		"FanoutdDispatchBehind": {
			{"falling behind", steady("fanoutd_dispatch_queue_age_seconds", config, "0x10 1.5x10"), true},
			{"for a moment", steady("fanoutd_dispatch_queue_age_seconds", config, "0x10 1.5 1.5 0x10"), false},
		},
		"FanoutdSlowPropagation": {
			{"all events are slow", took("0x60", "0+100x60"), true},
			{"one of 50 reads slowly", took("0+98x60", "0+100x60"), false},
			{"no events", took("7x60", "7x60"), false},
		},
		"FanoutdWatchersFallBehind": {
			{"all the time", behind("delta", "0+5x90"), true},
			{"replayed from the window", behind("replay", "0+5x90"), false},
			{"once", behind("delta", "0x10 50x60"), false},
		},
		"FanoutdWatchersBlocked": {
			{"half of them", watchers("100x60", "50x60"), true},
			{"a few of them", watchers("100x60", "5x60"), false},
			{"the only one", watchers("1x60", "1x60"), false},
			{"there are none", watchers("0x60", "0x60"), false},
		},
		"FanoutdSubscribersFail": {
			{"one does", steady("fanoutd_watchers_failing", config, "0x10 1x50"), true},
			{"until the error is fixed", steady("fanoutd_watchers_failing", config, "0x10 9x10 0x40"), false},
			{"none does", steady("fanoutd_watchers_failing", config, "0x60"), false},
		},
		"FanoutdSubscribersApplyLate": {
			{"one does", applied("9x60", "0x10 1x50"), true},
			{"for a while", applied("9x60", "0x10 9x30 0x20"), false},
			{"up to a minute", applied("9x60", "0x60"), false},
			{"they never report", steady("fanoutd_watchers_by_applied_lag", config+`, lag="unreported"`, "9x60"), false},
		},
		"FanoutdErrors": {
			{"all of a few writes fail", handled("Put", "unary", "Unavailable", "0+2x60") + handled("Get", "unary", "OK", "0+1000x60"), true},
			{"watches fail", handled("Watch", "server_stream", "Internal", "0+2x60"), true},
			{"watches of streams fail", ended("Internal", "0+2x60") + ended("OK", "0+10x60"), true},
			{"few watches of streams fail", ended("Internal", "0+1x60") + ended("OK", "0+30x60"), false},
			{"watches of streams are refused", ended("PermissionDenied", "0+100x60"), false},
			{"a watch of a stream fails", ended("Internal", "0x10 1x50"), false},
			{"the server stops", handled("Watch", "server_stream", "Unavailable", "0x10 500 1000x30") + handled("Get", "unary", "OK", "0+10x40"), false},
			{"one of a few", handled("Get", "unary", "Unavailable", "0x10 1x50") + handled("Get", "unary", "OK", "0x5 1x10 2x45"), false},
			{"client errors", handled("Put", "unary", "InvalidArgument", "0+100x60"), false},
			{"another program", steady("grpc_server_handled_total", here+`, grpc_service="x.Y", grpc_method="Z", grpc_type="unary", grpc_code="Internal"`, "0+100x60"), false},
		},
		"FanoutdEtcdErrors": {
			{"it is full, under many reads", etcd("commit", "0+10x60", "0+10x60") + etcd("revision", "0+1000x60", "0x60"), true},
			{"a watch failed", etcd("watch", "0x10 1x50", "0x10 1x50") + etcd("revision", "0+10x60", "0x60"), false},
			{"all is well", etcd("revision", "0+100x60", "0+1x60"), false},
			{"no reads", etcd("revision", "5x60", "1x60"), false},
		},
		"FanoutdDatabaseFull": {
			{"nearly", steady("fanoutd_embedded_etcd_db_bytes", here, "90x60") + steady("fanoutd_embedded_etcd_db_quota_bytes", here, "100x60"), true},
			{"not at all", steady("fanoutd_embedded_etcd_db_bytes", here, "50x60") + steady("fanoutd_embedded_etcd_db_quota_bytes", here, "100x60"), false},
		},
		"FanoutdDiskFull": {
			{"it is", steady("fanoutd_embedded_etcd_disk_full", here, "0x10 1x50"), true},
			{"for a moment", steady("fanoutd_embedded_etcd_disk_full", here, "0x10 1 0x50"), false},
		},
		"FanoutdClusterNoLeader": {
			{"it has none", steady("fanoutd_cluster_has_leader", here, "1x10 0x50"), true},
			{"an election", steady("fanoutd_cluster_has_leader", here, "1x10 0 1x50"), false},
		},
		"FanoutdClusterNotSafe": {
			{"a member is missing", steady("fanoutd_cluster_safe", here, "1x10 0x50"), true},
			{"a restart", steady("fanoutd_cluster_safe", here, "1x10 0x5 1x45"), false},
		},
		"FanoutdClusterAlarm": {
			{"two servers see it", steady("fanoutd_cluster_member_alarm", here+`, member="node-2", alarm="corrupt"`, "0x10 1x50") +
				steady("fanoutd_cluster_member_alarm", `job="f", instance="b", member="node-2", alarm="corrupt"`, "0x10 1x50"), true},
			{"there is none", steady("fanoutd_cluster_member_alarm", here+`, member="node-2", alarm="corrupt"`, "0x60"), false},
		},
		"FanoutdClusterCertificateExpires": {
			{"in 29 days", steady("fanoutd_cluster_certificate_not_after_timestamp_seconds", here, "2505600x60"), true},
			{"in 40 days", steady("fanoutd_cluster_certificate_not_after_timestamp_seconds", here, "3456000x60"), false},
		},
		"FanoutdRefusing": {
			{"all the time", steady("fanoutd_refused_total", here+`, reason="RATE_LIMITED"`, "0+30x60"), true},
			{"once", steady("fanoutd_refused_total", here+`, reason="RATE_LIMITED"`, "0x10 200x50"), false},
		},
		"FanoutdAuditRecordsLost": {
			{"some", steady("fanoutd_audit_records_lost_total", here, "0x10 3x50"), true},
			{"none", steady("fanoutd_audit_records_lost_total", here, "0x60"), false},
		},
	}
	if names := slices.Sorted(maps.Keys(situations)); !slices.Equal(names, alerts(t)) {
		t.Errorf("got alerts %q, and situations for %q", alerts(t), names)
	}
	file, err := filepath.Abs(filepath.Join(root, rules))
	if err != nil {
		t.Fatal(err)
	}
	tests := []any{}
	for _, alert := range slices.Sorted(maps.Keys(situations)) {
		for _, s := range situations[alert] {
			tests = append(tests, s.test(alert))
		}
	}
	text, err := yaml.Marshal(map[string]any{"rule_files": []string{file}, "evaluation_interval": interval, "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tests.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, ".", nil, promtool(t), "test", "rules", path)
}
