package output_test

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// A narrow terminal cuts the last column, except one that is whole: an error that is cut off is no help.
func TestWholeColumnsAreNotCut(t *testing.T) {
	long := strings.Repeat("long ", 10) + "end"
	for whole, want := range map[bool]string{false: "NAME  LAST\nx     long long long …\n", true: "NAME  LAST\nx     " + long + "\n"} {
		var b strings.Builder
		columns := []output.Column[string]{
			{Title: "NAME", Cell: func(string) string { return "x" }},
			{Title: "LAST", Cell: func(last string) string { return last }, Whole: whole},
		}
		if err := output.Records(output.Printer{W: &b, Format: output.Table, Width: 22}, columns, []string{long}); err != nil {
			t.Fatal(err)
		}
		if got := ansi.Strip(b.String()); got != want {
			t.Errorf("whole %v: got %q, want %q", whole, got, want)
		}
	}
}
