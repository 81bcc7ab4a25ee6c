package cluster_test

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/cluster"
	clustercerts "github.com/fanoutd/fanoutd/internal/cluster/certs"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/race"
)

// Three servers found one cluster whatever the order in which they start, and each reads what another one
// has written. Until the last one answers, the others say that they wait for it.
func TestFoundingInEveryOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for _, order := range []string{"node-1 node-2 node-3", "node-1 node-3 node-2", "node-2 node-1 node-3", "node-2 node-3 node-1", "node-3 node-1 node-2", "node-3 node-2 node-1"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			configs := machines(t, "node-1", "node-2", "node-3")
			names := strings.Fields(order)
			late := names[2]
			running := launchAll(t, configs, names[:2]...)
			for _, m := range running {
				m.says(t, "waiting for "+late)
			}
			running[late] = launch(t, configs[late])
			for _, writer := range names {
				running[writer].put(t, "by/"+writer, writer)
				for _, reader := range names {
					if got := running[reader].get(t, "by/"+writer); got != writer {
						t.Errorf("%s reads %q of %s", reader, got, writer)
					}
				}
			}
			stopAll(t, running)
		})
	}
}

// After a stop of all, the servers continue with what they have: nothing is founded, and nobody waits for
// one that stays away.
func TestRestartOfAll(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs, running := formed(t)
	running["node-2"].put(t, "app/limits", "1")
	before := running["node-2"].epoch(t)
	stopAll(t, running)

	running = launchAll(t, configs, "node-3", "node-2") // a majority
	for name, m := range running {
		if got := m.get(t, "app/limits"); got != "1" {
			t.Errorf("%s has %q", name, got)
		}
	}
	running["node-1"] = launch(t, configs["node-1"])
	running["node-1"].put(t, "app/limits", "2")
	for name, m := range running {
		if got, epoch := m.get(t, "app/limits"), m.epoch(t); got != "2" || epoch != before {
			t.Errorf("%s has %q in epoch %s, want 2 in %s", name, got, epoch, before)
		}
		if strings.Contains(m.log.String(), "founding") || strings.Contains(m.log.String(), "joining") {
			t.Errorf("%s did not only start again", name)
		}
	}
	stopAll(t, running)
}

// A server whose directory is gone does not come back under its old id, and does not found another
// cluster, also not after a stop of all and as the first of the list. The others go on. Once it has been removed
// from the cluster, it joins as a new member.
func TestAServerWithoutItsDataIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for name, all := range map[string]bool{"alone": false, "with a stop of all": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			configs, running := formed(t)
			running["node-2"].put(t, "app/limits", "1")
			if all {
				stopAll(t, running)
			} else {
				running["node-1"].stop(t)
			}
			if err := os.RemoveAll(configs["node-1"].DataDir); err != nil {
				t.Fatal(err)
			}
			lost := launch(t, configs["node-1"])
			if all {
				running = launchAll(t, configs, "node-2", "node-3")
			}
			delete(running, "node-1")
			lost.refuses(t, "node-1 is a member of the cluster already", "its data is gone", "fanoutctl cluster replace node-1")
			if got := running["node-3"].get(t, "app/limits"); got != "1" {
				t.Errorf("node-3 has %q", got)
			}
			running["node-2"].put(t, "app/limits", "2")

			client := etcdClientOf(t, configs["node-2"])
			members, err := client.MemberList(poll.Context(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range members.Members {
				if m.Name == "node-1" {
					removeMember(t, client, m.ID)
				}
			}
			running["node-1"] = launch(t, configs["node-1"])
			running["node-1"].says(t, "this server votes")
			if got := running["node-1"].get(t, "app/limits"); got != "2" {
				t.Errorf("node-1 has %q", got)
			}
			stopAll(t, running)
		})
	}
}

// A server with the data of another cluster says so and stops, and the first one goes on.
func TestTwoClustersRefuseEachOther(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs := machines(t, "node-1", "node-2", "node-3")
	for _, name := range []string{"node-1", "node-2"} {
		single := configs[name]
		single.Cluster = nil
		conn, stop := start(t, single)
		put(t, conn, "app/of", name)
		stop()
	}
	first := launch(t, configs["node-1"])
	if got := first.get(t, "app/of"); got != "node-1" {
		t.Errorf("got %q", got)
	}
	launch(t, configs["node-2"]).refuses(t, "the data directory belongs to cluster", "node-1 belongs to cluster")

	// The directory of another server is refused even if that one does not answer.
	first.stop(t)
	moved := configs["node-3"]
	moved.DataDir = configs["node-1"].DataDir
	launch(t, moved).refuses(t, "the data directory belongs to node-1, and this server is node-3")
}

// A single server becomes the first of three in its directory. Its objects stay, and its subscribers continue
// at their positions. Until a second server votes, it serves reads, and refuses writes.
func TestGrowthFromASingleServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs := machines(t, "node-1", "node-2", "node-3")
	single := configs["node-2"] // not the first of the list
	single.Cluster = nil
	conn, stop := start(t, single)
	put(t, conn, "app/limits", "1")
	position := snapshot(t, conn)
	put(t, conn, "app/limits", "2")
	stop()

	running := launchAll(t, configs, "node-2")
	grown := running["node-2"]
	if got := grown.get(t, "app/limits"); got != "2" {
		t.Errorf("got %q", got)
	}
	_, err := fanoutv1.NewStoreServiceClient(grown.conn).Put(poll.Context(t), putRequest("app/limits", "3"))
	if s := status.Convert(err); s.Code() != codes.Unavailable || !strings.Contains(s.Message(), "need 2 voting members, and it has 1") || reasonOf(s) != "CLUSTER_FORMING" {
		t.Errorf("a write before a majority votes: got %v, reason %s", err, reasonOf(s))
	}
	_, err = etcdClientOf(t, configs["node-2"]).Put(poll.Context(t), "/fanoutd/config/app/limits", "3")
	if err == nil || !strings.Contains(err.Error(), "need 2 voting members, and it has 1") {
		t.Errorf("a write through etcd before a majority votes: got %v", err)
	}
	// By the reason, other servers know that their write was not proposed.
	_, err = pb.NewKVClient(etcdClientOf(t, configs["node-2"]).ActiveConnection()).Put(poll.Context(t), &pb.PutRequest{Key: []byte("key")})
	if reason := reasonOf(status.Convert(err)); reason != "CLUSTER_FORMING" {
		t.Errorf("a write of another server before a majority votes: got %v, reason %q", err, reason)
	}

	running["node-1"] = launch(t, configs["node-1"])
	running["node-1"].put(t, "app/limits", "3")
	running["node-3"] = launch(t, configs["node-3"])
	for _, m := range running {
		if got := m.get(t, "app/limits"); got != "3" {
			t.Errorf("got %q", got)
		}
	}
	stream, err := fanoutv1.NewFanoutServiceClient(running["node-3"].serving(t)).Watch(poll.Context(t), &fanoutv1.WatchRequest{
		Resource: "config", Begin: &fanoutv1.WatchRequest_After{After: position},
	})
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for len(values) == 0 || values[len(values)-1] != "3" {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetCatchUp() == fanoutv1.WatchResponse_CATCH_UP_RESET {
			t.Fatalf("the subscriber starts over: %v", m)
		}
		for _, e := range m.GetEvents() {
			values = append(values, e.GetObject().GetText())
		}
	}
	stopAll(t, running)
}

// Two of three servers found a cluster without the third, if they are told to. It joins when it comes.
func TestFoundingWithoutAServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs := machines(t, "node-1", "node-2", "node-3")
	running := launchAll(t, configs, "node-3", "node-2")
	running["node-2"].says(t, "waiting for node-1")
	if err := cluster.Form(configs["node-2"].DataDir, []string{"node-1"}); err != nil {
		t.Fatal(err)
	}
	running["node-3"].put(t, "app/limits", "1")
	running["node-1"] = launch(t, configs["node-1"])
	running["node-1"].put(t, "app/limits", "2")
	if got := running["node-2"].get(t, "app/limits"); got != "2" {
		t.Errorf("got %q", got)
	}
	stopAll(t, running)
}

// A start that was interrupted after the cluster had added the server leaves a member that never voted. The
// next start replaces it.
func TestJoinAfterAnInterruptedJoin(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs := machines(t, "node-1", "node-2", "node-3")
	running := launchAll(t, configs, "node-1", "node-2")
	running["node-1"].says(t, "waiting for node-3")
	if err := cluster.Form(configs["node-1"].DataDir, []string{"node-3"}); err != nil {
		t.Fatal(err)
	}
	running["node-2"].says(t, "this server votes")
	client := etcdClientOf(t, configs["node-1"])
	var left uint64
	poll.Until(t, "a member is added", func() bool {
		added, err := client.MemberAddAsLearner(poll.Context(t), []string{"http://" + configs["node-3"].Cluster.Members["node-3"]})
		if err == nil {
			left = added.Member.ID
		}
		return err == nil
	})
	running["node-3"] = launch(t, configs["node-3"])
	running["node-3"].says(t, "this server votes")
	members, err := client.MemberList(poll.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members.Members {
		if m.ID == left || m.IsLearner {
			t.Errorf("got member %v", m)
		}
	}
	if len(members.Members) != 3 {
		t.Errorf("got %d members", len(members.Members))
	}
	stopAll(t, running)
}

// Without a majority, a write ends as not applied: no server has proposed it. It is counted, and the next one
// succeeds once another server has started again.
func TestWriteWithoutAMajority(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs, running := formed(t)
	running["node-2"].put(t, "app/limits", "1")
	running["node-1"].stop(t)
	running["node-2"].stop(t)
	alone := running["node-3"]
	_, err := fanoutv1.NewStoreServiceClient(alone.conn).Put(poll.Context(t), putRequest("app/limits", "2"))
	for reasonOf(status.Convert(err)) == "STORE_UNAVAILABLE" { // it was sent before this server knew
		_, err = fanoutv1.NewStoreServiceClient(alone.conn).Put(poll.Context(t), putRequest("app/limits", "2"))
	}
	if s := status.Convert(err); s.Code() != codes.Unavailable || reasonOf(s) != "WRITE_NOT_APPLIED" {
		t.Errorf("got %v, reason %s", err, reasonOf(s))
	}
	running["node-1"] = launch(t, configs["node-1"])
	alone.put(t, "app/limits", "3")
	running["node-2"] = launch(t, configs["node-2"])
	if got := running["node-2"].get(t, "app/limits"); got != "3" {
		t.Errorf("got %q", got)
	}
	stopAll(t, running)
}

// A server that waits for a majority can be stopped.
func TestStopWithoutAMajority(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs, running := formed(t)
	stopAll(t, running)
	alone := launch(t, configs["node-1"])
	poll.Until(t, "etcd runs", func() bool {
		resp, err := http.Get("http://" + configs["node-1"].Cluster.Members["node-1"] + "/members")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
	alone.stop(t)
}

// The members talk with TLS, and accept only certificates of their authority with the name of a member.
func TestClusterWithTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for name, stranger := range map[string]func(t *testing.T, a *certs.Authority, ip string) (file string, files certs.Files){
		"another authority": func(t *testing.T, _ *certs.Authority, ip string) (string, certs.Files) {
			a := certs.NewAuthority(t)
			return a.File, a.Issue(t, certs.Subject{CommonName: "node-3", IPs: []string{ip, "127.0.0.1"}}).Files(t)
		},
		"another name": func(t *testing.T, a *certs.Authority, _ string) (string, certs.Files) {
			return a.File, a.Issue(t, certs.Subject{CommonName: "node-3", IPs: []string{"127.99.0.1"}}).Files(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			authority := certs.NewAuthority(t)
			configs := machines(t, "node-1", "node-2", "node-3")
			use := func(name, authorities string, files certs.Files) {
				c := configs[name].Cluster
				c.CAFile, c.CertFile, c.KeyFile = authorities, files.Cert, files.Key
			}
			issue := func(name string) {
				host, _ := configs[name].Cluster.Address(name)
				use(name, authority.File, authority.Issue(t, certs.Subject{CommonName: name, IPs: []string{host, "127.0.0.1"}}).Files(t))
			}
			issue("node-1")
			issue("node-2")
			host, _ := configs["node-3"].Cluster.Address("node-3")
			file, files := stranger(t, authority, host)
			use("node-3", file, files)
			running := launchAll(t, configs, "node-1", "node-2", "node-3")
			running["node-1"].says(t, "waiting for node-3 (")
			running["node-3"].says(t, "waiting for ")
			running["node-3"].stop(t)
			issue("node-3")
			running["node-3"] = launch(t, configs["node-3"])
			running["node-3"].put(t, "app/limits", "1")
			if got := running["node-1"].get(t, "app/limits"); got != "1" {
				t.Errorf("got %q", got)
			}
			for name, m := range running {
				m.says(t, "this server votes")
				if strings.Contains(m.log.String(), "http://127") {
					t.Errorf("%s uses plain text", name)
				}
			}
			stopAll(t, running)
		})
	}
}

// The members have certificates of "fanoutd cluster certs" that contain none of their addresses, as those of pods. A
// server with an expired certificate says so at its start.
func TestClusterWithCertificatesOfItsOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	folder, expired := t.TempDir(), t.TempDir()
	members := []clustercerts.Member{{Name: "node-1", Hosts: []string{"a.invalid"}}, {Name: "node-2", Hosts: []string{"b.invalid"}}, {Name: "node-3", Hosts: []string{"c.invalid"}}}
	terms := clustercerts.Terms{Now: time.Now(), Member: clustercerts.MemberLifetime, Authority: clustercerts.AuthorityLifetime}
	if _, err := clustercerts.Directory(folder).Add(members, terms); err != nil {
		t.Fatal(err)
	}
	terms.Now = terms.Now.Add(-2 * terms.Member)
	if _, err := clustercerts.Directory(expired).Add(members, terms); err != nil {
		t.Fatal(err)
	}
	configs := machines(t, "node-1", "node-2", "node-3")
	use := func(name, folder string) config.Config {
		c := configs[name].Cluster
		c.CAFile, c.CertFile, c.KeyFile = filepath.Join(folder, name, clustercerts.CAFile), filepath.Join(folder, name, clustercerts.CertFile), filepath.Join(folder, name, clustercerts.KeyFile)
		return configs[name]
	}
	cfg := use("node-1", expired)
	if problems := app.CheckFiles(cfg); len(problems) != 1 || !strings.Contains(problems[0].Message, "has expired") {
		t.Errorf("config check with an expired certificate: got %v", problems)
	}
	launch(t, cfg).refuses(t, "certificate of this server in the cluster", "has expired")
	for name := range configs {
		if problems := app.CheckFiles(use(name, folder)); len(problems) > 0 {
			t.Errorf("config check: got %v", problems)
		}
	}
	running := launchAll(t, configs, "node-1", "node-2", "node-3")
	for _, m := range running {
		m.says(t, "this server votes")
	}
	for _, one := range running["node-1"].becomesSafe(t).GetMembers() { // they answer its questions
		if left := clustercerts.DaysUntil(one.GetCertificateExpires().AsTime(), time.Now()); left < 360 || left > 366 {
			t.Errorf("the certificate of %s has %d days left", one.GetName(), left)
		}
	}
	for writer, m := range running {
		m.put(t, "by/"+writer, writer)
		for reader, m := range running {
			if got := m.get(t, "by/"+writer); got != writer {
				t.Errorf("%s reads %q of %s", reader, got, writer)
			}
		}
	}
	stopAll(t, running)
}

// A server that was away for longer than the others keep entries gets their whole database. Its own one is
// replaced while it runs, and serves reads, watches, sizes and a defragmentation afterwards.
func TestAServerThatMissedMuch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	if race.Enabled {
		t.Skip("etcd replaces its alarms without a lock when it applies a snapshot of the leader (restoreAlarms), while others ask for them")
	}
	t.Parallel()
	configs, running := formed(t)
	running["node-3"].put(t, "app/limits", "1")
	running["node-3"].stop(t)
	client := etcdClientOf(t, configs["node-1"])
	var writers errgroup.Group
	writers.SetLimit(128)
	const writes = 20_000 // more than the entries between two snapshots, and those that are kept then
	for i := range writes {
		writers.Go(func() error {
			ctx := poll.Context(t)
			_, err := client.Put(ctx, "/elsewhere/"+strconv.Itoa(i%100), "value")
			for errors.Is(err, rpctypes.ErrTimeout) && ctx.Err() == nil { // on a busy machine
				_, err = client.Put(ctx, "/elsewhere/"+strconv.Itoa(i%100), "value")
			}
			return err
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	running["node-1"].put(t, "app/limits", "2")

	back := launchLogging(t, configs["node-3"], slog.LevelDebug)
	running["node-3"] = back
	if got := back.get(t, "app/limits"); got != "2" {
		t.Errorf("got %q", got)
	}
	back.says(t, "applied snapshot")
	stream, err := fanoutv1.NewFanoutServiceClient(back.conn).Watch(poll.Context(t), &fanoutv1.WatchRequest{
		Resource: "config", Begin: &fanoutv1.WatchRequest_After{After: snapshot(t, back.conn)},
	})
	if err != nil {
		t.Fatal(err)
	}
	running["node-2"].put(t, "app/limits", "3")
	for seen := ""; seen != "3"; {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range m.GetEvents() {
			seen = e.GetObject().GetText()
		}
	}
	reclaimed, err := fanoutv1.NewAdminServiceClient(back.conn).ReclaimSpace(poll.Context(t), &fanoutv1.ReclaimSpaceRequest{})
	if err != nil || reclaimed.GetBytes() == 0 {
		t.Errorf("got %v, %v", reclaimed, err)
	}
	stopAll(t, running)
}
