package readme

import (
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// Both programs of docs/from-etcd.md print what the page shows.
func TestFromEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	r := open(t, "docs/from-etcd.md")
	r.run("mkdir /tmp/before /tmp/shop")
	etcd := etcdproc.Start(t, "http")
	here := strings.NewReplacer("127.0.0.1:2379", etcd, "http://", "", "/etc/fanoutd/", "/tmp/")
	r.write("fanoutd.yaml", here.Replace(r.next("yaml")))
	compare := r.next("sh")
	r.write("before/main.go", here.Replace(r.next("go")))
	r.write("shop/main.go", r.next("go"))

	outside := r.prelude
	r.install()
	r.prelude += "export ETCDCTL_ENDPOINTS=" + etcd + "\n" + etcdproc.Functions(t)
	r.start("exec fanoutd --config fanoutd.yaml").await("msg=serving")
	inside := r.prelude
	r.prelude = outside
	before, after := r.start("go run /tmp/before/main.go"), r.start(r.next("sh"))
	r.prelude = inside

	// A program that receives several changes at once prints only the last state, so make them one by one.
	changes := strings.SplitAfter(strings.TrimSpace(r.next("sh")), "\n")
	states := strings.SplitAfter(strings.TrimSpace(r.next("text")), "\n")
	for i, state := range states {
		if i > 0 {
			r.run(changes[i-1])
		}
		for _, program := range []*terminal{before, after} {
			program.prints(strings.TrimSuffix(state, "\n") + "\n")
		}
		if i == 1 {
			if got := r.run(compare); strings.Count(got, "shop/limits") != 2 {
				t.Errorf("%s\nprinted\n%s", compare, got)
			}
		}
	}
	r.end()

	r.turnTo("docs/reference/configuration.md")
	for _, b := range r.blocks {
		if b.language == "console" {
			r.session(here.Replace(b.text))
		}
	}
}
