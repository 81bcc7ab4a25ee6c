package readme

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/poll"
)

// The session of docs/reference/protocol.md is what happens: the test sends what the client sends, and compares what
// the server answers.
func TestSessionOfTheProtocolPage(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/reference/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	var session string
	for _, b := range parse(string(text)) {
		if b.language == "session" {
			session = b.text
		}
	}
	ctx, cancel := context.WithCancel(poll.Context(t))
	defer cancel()
	conn, err := grpc.NewClient(inprocess.Start(t, inprocess.Config(t)).Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := &player{t: t, ctx: ctx, store: fanoutv1.NewStoreServiceClient(conn)}
	if p.stream, err = fanoutv1.NewFanoutServiceClient(conn).Subscribe(ctx, grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	// A line that begins with spaces continues the one before.
	session = regexp.MustCompile(`\n +`).ReplaceAllString(session, " ")
	for line := range strings.Lines(session) {
		switch what, rest, _ := strings.Cut(line, " "); what {
		case "write":
			p.write(rest)
		case "client":
			p.send(rest)
		case "server":
			p.receive(rest)
		default:
			t.Fatalf("docs/reference/protocol.md: unknown line %s", line)
		}
	}
	if p.received == 0 {
		t.Error("docs/reference/protocol.md has no answers of the server")
	}
}

// player plays a session.
type player struct {
	t        *testing.T
	ctx      context.Context
	store    fanoutv1.StoreServiceClient
	stream   fanoutv1.FanoutService_SubscribeClient
	epoch    string                              // of the server, once it is known
	pending  []*fanoutv1.SubscribeResponse_Entry // received and not compared yet
	received int
}

// printedEpochs matches the epochs of the page.
var printedEpochs = regexp.MustCompile(`"epoch": ?"([^"]+)"`)

// write makes a transaction of other clients.
func (p *player) write(operations string) {
	p.t.Helper()
	req := &fanoutv1.TransactRequest{}
	p.parse(`{"resource": "config", "operations": `+operations+`}`, req)
	if _, err := p.store.Transact(p.ctx, req); err != nil {
		p.t.Fatal(err)
	}
}

func (p *player) send(request string) {
	p.t.Helper()
	req := &fanoutv1.SubscribeRequest{}
	p.parse(printedEpochs.ReplaceAllLiteralString(request, `"epoch": "`+p.epoch+`"`), req)
	if err := p.stream.Send(req); err != nil {
		p.t.Fatal(err)
	}
}

// receive receives the entries that are printed. Entries of several watches must come in one response, in
// any order.
func (p *player) receive(printed string) {
	p.t.Helper()
	want := &fanoutv1.SubscribeResponse{}
	p.parse(printedEpochs.ReplaceAllLiteralString(printed, `"epoch": "`+p.epoch+`"`), want)
	for len(p.pending) == 0 {
		got, err := p.stream.Recv()
		if err != nil {
			p.t.Fatalf("got %v, want %s", err, printed)
		}
		p.pending = got.GetEntries()
		slices.SortStableFunc(p.pending, func(a, b *fanoutv1.SubscribeResponse_Entry) int {
			return slices.Compare(a.GetWatchIds(), b.GetWatchIds())
		})
	}
	n := min(len(want.GetEntries()), len(p.pending))
	got := &fanoutv1.SubscribeResponse{Entries: p.pending[:n]}
	p.pending = p.pending[n:]
	for _, e := range got.GetEntries() {
		if epoch := e.GetResponse().GetPosition().GetEpoch(); epoch != "" && p.epoch == "" {
			p.epoch = epoch
			p.parse(printedEpochs.ReplaceAllLiteralString(printed, `"epoch": "`+p.epoch+`"`), want)
		}
	}
	p.received++
	if diff := cmp.Diff(p.tree(want), only(p.tree(got), p.tree(want))); diff != "" {
		p.t.Errorf("docs/reference/protocol.md differs (-printed +real):\n%s", diff)
	}
}

// only returns a JSON value with only those fields that are printed.
func only(v, printed any) any {
	switch printed := printed.(type) {
	case map[string]any:
		if v, ok := v.(map[string]any); ok {
			maps.DeleteFunc(v, func(name string, _ any) bool { return printed[name] == nil })
			for name := range v {
				v[name] = only(v[name], printed[name])
			}
		}
	case []any:
		if v, ok := v.([]any); ok && len(v) == len(printed) {
			for i := range v {
				v[i] = only(v[i], printed[i])
			}
		}
	}
	return v
}

func (p *player) parse(text string, m proto.Message) {
	p.t.Helper()
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		p.t.Fatalf("docs/reference/protocol.md: %v in %s", err, text)
	}
}

// tree returns a message as JSON values.
func (p *player) tree(m proto.Message) (v any) {
	p.t.Helper()
	text, err := protojson.Marshal(m)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}
