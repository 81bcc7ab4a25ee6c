package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/fanoutd/fanoutd/internal/check"
	"github.com/fanoutd/fanoutd/internal/object"
)

var revisionInLog = regexp.MustCompile(`\brevision=(\d+)`)

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
		found := revisionInLog.FindStringSubmatch(line)
		if found == nil {
			return nil, fmt.Errorf("the log does not say the revision: %s", line)
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
