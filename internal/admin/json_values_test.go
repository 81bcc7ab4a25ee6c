package admin_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
)

// Over HTTP, messages are shown in their JSON form unless the request refuses it, whatever the path
// and wherever the request has its fields.
func TestMessagesAreJSONOverHTTP(t *testing.T) {
	set, err := os.ReadFile("../object/testdata/route.binpb")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, func(c *config.Config) {
		r := config.NewResource("routes")
		r.Codec, r.DescriptorSet, r.Descriptors, r.Message = "protobuf", "route.binpb", set, "acme.v1.Route"
		c.Resources = append(c.Resources, r)
	})
	const base = "/v1/resources/routes/"
	if a := s.do(t, "PUT", base+"objects/a", `{"region": "eu"}`, "Content-Type", "application/json"); a.status != http.StatusOK {
		t.Fatalf("put: %d %s", a.status, a.body)
	}
	for parameter, isJSON := range map[string]bool{"": true, "json_values=true": true, "jsonValues=false": false, "json_values=false": false} {
		check := func(what string, o *fanoutv1.Object) {
			t.Helper()
			want := &fanoutv1.Object{Value: &fanoutv1.Object_Data{Data: []byte("\x12\x02eu")}, ContentType: "application/protobuf"}
			if isJSON {
				want = &fanoutv1.Object{Value: &fanoutv1.Object_Text{Text: `{"region":"eu"}`}, ContentType: "application/json"}
			}
			if o.GetText() != want.GetText() || string(o.GetData()) != string(want.GetData()) || o.GetContentType() != want.GetContentType() {
				t.Errorf("%s, %s: got %v, want %v", what, parameter, o, want)
			}
		}
		check("get", call[fanoutv1.GetResponse](t, s, "GET", base+"objects/a?"+parameter, "").GetObject())
		check("list", call[fanoutv1.ListResponse](t, s, "GET", base+"objects?"+parameter, "").GetObjects()[0])
		check("put", call[fanoutv1.PutResponse](t, s, "PUT", base+"objects/a?if_mod_revision=0&return_current=true&"+parameter, "{}").GetObject())
		check("delete", call[fanoutv1.DeleteResponse](t, s, "DELETE", base+"objects/a?if_mod_revision=1&return_current=true&"+parameter, "").GetObject())
		want, wantType := "\x12\x02eu", "application/protobuf"
		if isJSON {
			want, wantType = `{"region":"eu"}`, "application/json"
		}
		if a := s.do(t, "GET", base+"objects/a?raw&"+parameter, ""); string(a.body) != want || a.header.Get("Content-Type") != wantType {
			t.Errorf("raw, %s: got %q of type %s", parameter, a.body, a.header.Get("Content-Type"))
		}

		field := "" // the same in a body
		if name, value, ok := strings.Cut(parameter, "="); ok {
			field = `, "` + name + `": ` + value
		}
		body := `{"operations": [{"check": {"key": "a", "modRevision": "1"}}], "returnCurrent": true` + field + `}`
		check("transaction", call[fanoutv1.TransactResponse](t, s, "POST", base+"transactions", body).GetResults()[0].GetObject())

		lines := s.follow(t, "GET", base+"watch?"+parameter, "")
		var events []*fanoutv1.Event
		for len(events) == 0 {
			events = parse[fanoutv1.WatchResponse](t, lines.line().Result).GetEvents()
		}
		check("watch", events[0].GetObject())
		lines = s.subscribe(t, `{"start": {"watchId": "1", "request": {"resource": "routes"`+field+`}}}`)
		for events = nil; len(events) == 0; {
			for _, e := range parse[fanoutv1.SubscribeResponse](t, lines.line().Result).GetEntries() {
				events = append(events, e.GetResponse().GetEvents()...)
			}
		}
		check("subscribe", events[0].GetObject())
	}
}
