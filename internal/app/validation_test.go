package app_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/test/poll"
)

// rulesWith are the rules of a resource whose objects are numbers.
func rulesWith(maximum string) string {
	return "checks: [{schema: {type: integer, maximum: " + maximum + "}}]\n"
}

// A changed validation file is in force when CheckFiles returns. A broken one leaves the rules as they are, which the
// status and the metrics show.
func TestValidationFilesAreReloaded(t *testing.T) {
	cfg := testConfig(t)
	path := filepath.Join(t.TempDir(), "rules.yaml")
	cfg.Resources[0].ValidationFile = path
	write(t, path, rulesWith("10"))
	ctx := poll.Context(t)
	a, err := app.Build(ctx, cfg, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- a.Run(running) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient(a.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	writes, operator := fanoutv1.NewStoreServiceClient(conn), fanoutv1.NewAdminServiceClient(conn)
	accepts := func(value string) bool {
		t.Helper()
		_, err := writes.Put(ctx, &fanoutv1.PutRequest{Resource: "config", ValidateOnly: true, Put: &fanoutv1.PutOperation{
			Key: "a", ContentType: "application/json", Value: &fanoutv1.PutOperation_Text{Text: value},
		}})
		if code := status.Code(err); code != codes.OK && code != codes.InvalidArgument {
			t.Fatal(err)
		}
		return err == nil
	}
	shown := func() *fanoutv1.ValidationStatus {
		t.Helper()
		resp, err := operator.ListResources(ctx, &fanoutv1.ListResourcesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetResources()[0].GetValidation()
	}
	metrics := func() string {
		t.Helper()
		resp, err := http.Get("http://" + a.AdminAddr().String() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if accepts("20") || !accepts("10") {
		t.Error("the rules are not in force")
	}
	first := shown()

	write(t, path, rulesWith("30"))
	a.CheckFiles(ctx)
	second := shown()
	if !accepts("20") || accepts("40") || first.GetHash() == second.GetHash() || second.GetProblem() != "" {
		t.Errorf("the changed rules are not in force: %v, %v", first, second)
	}

	write(t, path, "checks: broken")
	a.CheckFiles(ctx)
	broken := shown()
	if !accepts("20") || accepts("40") || broken.GetHash() != second.GetHash() || !strings.Contains(broken.GetProblem(), path) {
		t.Errorf("a broken file has changed the rules, or is not shown: %v", broken)
	}
	for _, want := range []string{
		`fanoutd_validation_file_unusable{resource="config"} 1`,
		`fanoutd_validation_info{hash="` + second.GetHash() + `",resource="config"} 1`,
		`fanoutd_validation_refusals_total{resource="config"} 3`,
	} {
		if text := metrics(); !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics do not have %s", want)
		}
	}

	write(t, path, rulesWith("10"))
	a.CheckFiles(ctx)
	if got := shown(); accepts("20") || got.GetHash() != first.GetHash() || got.GetProblem() != "" {
		t.Errorf("the first rules are not in force again: %v", got)
	}

	cfg.Resources[0].ValidationFile = path
	write(t, path, "checks: broken")
	if problems := app.CheckFiles(cfg); len(problems) == 0 || problems[0].Key != "resources[0].validation-file" {
		t.Errorf("config check: got %v", problems)
	}
}
