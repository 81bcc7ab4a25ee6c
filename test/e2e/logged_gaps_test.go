package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// revisionOfLog matches the revision in a log line about a list.
var revisionOfLog = regexp.MustCompile(`\brevision=(\d+)`)

// loggedGaps returns the gaps that a server's log reports: each relist has the revision
// before and after.
func loggedGaps(log string) ([]check.Gap, error) {
	var all []check.Gap
	from := object.Revision(0)
	for line := range strings.Lines(log) {
		lost, listed := strings.Contains(line, "listing again"), strings.Contains(line, "listed again")
		if !lost && !listed {
			continue
		}
		found := revisionOfLog.FindStringSubmatch(line)
		if found == nil {
			return nil, fmt.Errorf("no revision in the log line: %s", line)
		}
		n, err := strconv.ParseInt(found[1], 10, 64)
		if err != nil {
			return nil, err
		}
		if lost {
			from = object.Revision(n)
		} else {
			all = append(all, check.Gap{After: from, Until: object.Revision(n)})
		}
	}
	return all, nil
}
