package subscribe

import (
	"sync/atomic"

	"google.golang.org/grpc/codes"
)

// endedCounts counts watches by the status code with which they were refused or have ended. The
// stream usually goes on, so the metrics of RPCs do not see these codes.
type endedCounts [codes.Unauthenticated + 1]atomic.Int64

func (c *endedCounts) add(code codes.Code, n int) {
	if int(code) >= len(c) {
		code = codes.Unknown
	}
	c[code].Add(int64(n))
}

// Ended returns the number of watches that were refused or have ended, for each status code. The
// watches of a stream that ends as a whole count with its code.
func (s *Service) Ended() map[codes.Code]int64 {
	all := map[codes.Code]int64{}
	for code := range s.ended {
		all[codes.Code(code)] = s.ended[code].Load()
	}
	return all
}
