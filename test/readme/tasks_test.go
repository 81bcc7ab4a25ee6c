package readme

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// Two servers with the keyset of docs/tasks/encrypt.md are those of docs/reference/fanoutctl.md and
// docs/tasks/deploy-gate.md.
func TestTasks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	r := open(t, "docs/tasks/encrypt.md")
	r.install()
	etcd, second := loopback.FreeAddress(t), loopback.FreeAddress(t)
	r.prelude += "export ETCDCTL_ENDPOINTS=" + etcd + "\n" + etcdproc.Functions(t)
	r.start("export FANOUTD_EMBEDDED_ETCD_LISTEN=" + etcd + "\n" + r.next("sh")).await("msg=serving")
	r.end()
	_, rotation, _ := strings.Cut(r.text, "\n## Rotation\n")

	r.turnTo("docs/reference/fanoutctl.md")
	first := r.next("console")
	first, watch, _ := strings.Cut(first, "$ fanoutctl watch ")
	put, list, _ := strings.Cut(first, "$ fanoutctl list ")
	r.session(put)
	r.run("fanoutctl put config shop/banner Welcome")
	r.session("$ fanoutctl list " + list)
	watch, printed, _ := strings.Cut(watch, "\n")
	running := r.start("fanoutctl watch " + watch)
	existing, changes, _ := strings.Cut(printed, "MODIFIED")
	running.prints(existing)
	r.run("fanoutctl put config shop/limits '{\"rps\": 200}' --label team=web && fanoutctl delete config shop/banner")
	running.prints("MODIFIED" + changes)
	running.interrupt()

	r.rotate(rotation)
	r.start("exec fanoutd --keyset-file keys.json --admin-listen '' --listen " + second + " --etcd-endpoints " + etcd)
	poll.Until(t, "the second server has the data", func() bool {
		return strings.Contains(r.run("fanoutctl resources --server "+second+" || true"), "serving")
	})
	r.next("text") // a screen
	r.next("yaml")
	r.session(strings.ReplaceAll(r.next("console"), "127.0.0.2:7420", second))
	r.next("yaml")

	poll.Until(t, "the watch has ended", func() bool { return !strings.Contains(r.run("fanoutctl watchers"), "127.0.0.1") })
	stop := r.refuse()
	wait := strings.TrimPrefix(r.next("console"), "$ ")
	wait, printed, _ = strings.Cut(wait, "\n")
	revision := strings.TrimSpace(r.run("fanoutctl put config shop/limits '{\"rps\": -1}'"))
	wait = strings.Replace(wait, "--revision 9", "--revision "+revision, 1)
	got := waits.ReplaceAllString(r.run(wait+" 2>&1; test $? = 9"), "")
	if masked(got) != masked(printed) {
		t.Errorf("%s\ngot\n%s\nwant\n%s", wait, got, printed)
	}
	stop()
	r.session(r.next("console"))
	r.end()

	r.turnTo("docs/tasks/deploy-gate.md")
	r.gate(second)
	r.undoByItself(second)
	r.begins(r.next("sh"))
	for range 3 {
		r.next("json")
	}
	r.end()
}

// rotate follows the steps of a rotation in docs/tasks/encrypt.md. They are in the text.
func (r *reader) rotate(steps string) {
	r.t.Helper()
	stored := func() string { return r.run("etcdctl get --print-value-only /fanoutd/config/shop/limits") }
	before := stored()
	if !strings.HasPrefix(before, "\x00fanoutd") || strings.Contains(before, "rps") {
		r.t.Errorf("etcd has %q, want an encrypted value", before)
	}
	id := strings.Fields(r.run("fanoutd keyset show keys.json | tail -n 1"))[0]
	steps, _, _ = strings.Cut(steps, "\n## ")
	here := strings.NewReplacer("RESOURCE", "config", "FILE", "keys.json", " ID", " "+id)
	commands := regexp.MustCompile("`(fanout(?:d|ctl) [^`]+)`").FindAllStringSubmatch(steps, -1)
	for _, m := range commands {
		command := here.Replace(m[1])
		if !strings.HasPrefix(command, "fanoutctl resources ") {
			r.run(command)
			continue
		}
		poll.Until(r.t, "new key", func() bool { return !strings.Contains(r.run(command), `"primaryKeyId": `+id) })
	}
	if len(commands) < 5 || stored() == before {
		r.t.Errorf("%q do not encrypt %q with another key", commands, before)
	}
}

var errNegative = errors.New("rps is negative")

// refuseNegative is what a subscriber does with an object whose rps must not be negative.
func refuseNegative(item client.Item[*client.Object]) error {
	if strings.Contains(string(item.Object.Value), "-") {
		return errNegative
	}
	return nil
}

// refuse starts two subscribers that do not apply changes: web-1 reports an error, and web-2 does not finish.
func (r *reader) refuse() (stop func()) {
	r.t.Helper()
	revision := r.run("fanoutctl put config shop/limits '{\"rps\": 300}'")
	ctx, cancel := context.WithCancel(r.t.Context())
	r.inform(ctx, "web-1", r.address, func(client.Item[*client.Object]) error { return errNegative })
	r.inform(ctx, "web-2", r.address, func(client.Item[*client.Object]) error {
		<-ctx.Done()
		return ctx.Err()
	})
	r.run("fanoutctl wait config --min-watches 2 --revision " + revision)
	return cancel
}

// inform starts a subscriber with an informer, and waits until it has the state. It calls apply for each update.
func (r *reader) inform(ctx context.Context, instance, server string, apply func(client.Item[*client.Object]) error, opts ...client.InformerOption) {
	r.t.Helper()
	c := r.client(server, client.WithSubscriber(instance, nil))
	informer := client.NewInformer(c.Resource("config"), client.ObjectDecoder(), opts...)
	informer.AddHandler(client.Handler[*client.Object]{Update: func(_, item client.Item[*client.Object]) error { return apply(item) }})
	go func() { _ = informer.Run(ctx) }() // WaitForSync returns its error
	if err := informer.WaitForSync(ctx); err != nil {
		r.t.Fatal(err)
	}
}

func (r *reader) client(server string, opts ...client.Option) *client.Client {
	r.t.Helper()
	c, err := client.New(server, opts...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// undoByItself runs a put that the subscriber web-1 refuses.
func (r *reader) undoByItself(second string) {
	r.t.Helper()
	r.inform(r.t.Context(), "web-1", r.address, refuseNegative, client.Prefix("prod"))
	session, code, _ := strings.Cut(r.next("console"), "$ echo $?\n")
	outside := r.prelude
	// The shell fails unless the last command has the exit code of the page.
	r.prelude += "export FANOUTCTL_SERVER=" + r.address + "," + second + "\nexec 2>&1\ntrap 'test $? = " + strings.TrimSpace(code) + " && exit 0' EXIT\n"
	r.session(strings.ReplaceAll(session, "fanoutd-1.example.com:7420", r.address))
	r.prelude = outside
	if got := r.run("fanoutctl get config prod/limits"); !strings.Contains(got, "100") {
		r.t.Errorf("got %s, want the former value", got)
	}
}

// gate runs the commands that wait for a canary and 200 instances at two servers.
func (r *reader) gate(second string) {
	r.t.Helper()
	script := strings.NewReplacer("fanoutd-1.example.com:7420", r.address, "fanoutd-2.example.com:7420", second).Replace(r.next("sh"))
	r.run("fanoutctl put config canary/limits '{\"rps\": 50}'")
	r.inform(r.t.Context(), "canary", second, refuseNegative, client.Prefix("canary"))
	servers := []*client.Client{r.client(r.address), r.client(second)}
	for i := range 200 {
		go func() {
			for range servers[i%2].Resource("config").Watch(r.t.Context(), client.Prefix("prod")) {
			}
		}()
	}
	r.write("limits.json", `{"rps": 100}`)
	r.run(script)
	r.write("limits.json", `{"rps": -1}`)
	r.run("(" + script + "); test $? = 9")
	if got := r.run("fanoutctl get config prod/limits"); !strings.Contains(got, "100") {
		r.t.Errorf("got %s, but the canary has refused the change", got)
	}
}
