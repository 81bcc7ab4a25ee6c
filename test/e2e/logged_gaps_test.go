package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// lineOfLog matches the time of a log line and, in a line about a list, its revision.
var lineOfLog = regexp.MustCompile(`^time=(\S+) .*\brevision=(\d+)`)

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
		found := lineOfLog.FindStringSubmatch(line)
		if found == nil {
			return nil, fmt.Errorf("no revision in the log line: %s", line)
		}
		at, err := time.Parse(time.RFC3339, found[1])
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseInt(found[2], 10, 64)
		if err != nil {
			return nil, err
		}
		if lost {
			from = object.Revision(n)
		} else {
			all = append(all, check.Gap{After: from, Until: object.Revision(n), Crossed: at})
		}
	}
	return all, nil
}
