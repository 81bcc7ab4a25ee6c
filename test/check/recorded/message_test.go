package recorded_test

import (
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check/recorded"
)

func TestTextBytesAndMissingValuesDiffer(t *testing.T) {
	tests := map[string]struct {
		received *fanoutv1.Object
		want     string
		none     bool
		wrong    bool
	}{
		"text":                  {received: &fanoutv1.Object{Value: &fanoutv1.Object_Text{Text: "x"}, ContentType: object.ContentText}, want: "x"},
		"bytes":                 {received: &fanoutv1.Object{Value: &fanoutv1.Object_Data{Data: []byte("x")}, ContentType: object.ContentBinary}, want: "x"},
		"empty text":            {received: &fanoutv1.Object{Value: &fanoutv1.Object_Text{}, ContentType: object.ContentText}},
		"empty bytes":           {received: &fanoutv1.Object{Value: &fanoutv1.Object_Data{}, ContentType: object.ContentBinary}},
		"no value":              {received: &fanoutv1.Object{ContentType: object.ContentText}, none: true},
		"text that is bytes":    {received: &fanoutv1.Object{Value: &fanoutv1.Object_Text{Text: "x"}, ContentType: object.ContentBinary}, wrong: true},
		"bytes that are text":   {received: &fanoutv1.Object{Value: &fanoutv1.Object_Data{Data: []byte("x")}, ContentType: object.ContentJSON}, wrong: true},
		"bytes that are almost": {received: &fanoutv1.Object{Value: &fanoutv1.Object_Data{Data: []byte("\xff")}, ContentType: object.ContentJSON}, want: "\xff"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, r := range []*fanoutv1.WatchResponse{
				{Events: []*fanoutv1.Event{{Object: test.received}}},
				{Events: []*fanoutv1.Event{{Object: &fanoutv1.Object{}, Previous: test.received}}},
			} {
				m, err := recorded.Message(r)
				if test.wrong {
					if err == nil {
						t.Error("got no error, want one")
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				o := &m.Events[0].Object
				if p := m.Events[0].Previous; p != nil {
					o = p
				}
				if (o.Value == nil) != test.none || string(o.Value) != test.want {
					t.Errorf("value: got %#v, want %q", o.Value, test.want)
				}
			}
		})
	}
}
