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

// A line of the log has its time and, where something is listed, the revision.
var lineOfLog = regexp.MustCompile(`^time=(\S+) .*\brevision=(\d+)`)

// jumps returns the gaps that a server crossed by listing again, as its log tells
// them: where it was, and where it went on.
func jumps(log string) ([]check.Gap, error) {
	var all []check.Gap
	from := object.Revision(0)
	for line := range strings.Lines(log) {
		lost, listed := strings.Contains(line, "listing again"), strings.Contains(line, "listed again")
		if !lost && !listed {
			continue
		}
		found := lineOfLog.FindStringSubmatch(line)
		if found == nil {
			return nil, fmt.Errorf("the log does not say the revision: %s", line)
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
