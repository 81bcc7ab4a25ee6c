package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/check/recorded"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// reader calls List and Get, and records the answers.
type reader struct {
	name    string
	clients []fanoutv1.FanoutServiceClient // each read and each page uses a random one
	ledger  *ledger
	rng     *rand.Rand

	uncounted bool // the server does not report remaining_count

	// compacted returns the revision below which etcd's history may be missing.
	compacted func() object.Revision

	reads []check.Read
}

// run reads until the context until ends.
func (r *reader) run(ctx, until context.Context) error {
	for until.Err() == nil {
		// A few reads for every write are enough.
		if err := r.ledger.wait(ctx, r.ledger.len()+r.rng.IntN(10)); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		read := r.get
		if r.rng.IntN(3) > 0 {
			read = r.list
		}
		if err := read(ctx); err != nil {
			return fmt.Errorf("%s: read %d: %w", r.name, len(r.reads), err)
		}
	}
	return nil
}

// asked chooses the consistency of a read, sets it in read for the validation, and
// returns it for the request.
func (r *reader) asked(read *check.Read) *fanoutv1.ReadConsistency {
	read.Reader = fmt.Sprintf("%s, read %d", r.name, len(r.reads))
	// Mostly recent enough for the window, and sometimes older.
	past, written := r.ledger.recent(r.rng.IntN(50))
	if r.rng.IntN(4) == 0 {
		past, written = r.ledger.recent(r.rng.IntN(3000))
	}
	switch n := r.rng.IntN(8); {
	case n == 0:
		return &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}}
	case n == 1 && written:
		read.NotBefore = past
		return &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_MinRevision{MinRevision: int64(past)}}
	case n < 4 && written:
		read.Exact = past
		return &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_ExactRevision{ExactRevision: int64(past)}}
	}
	read.NotBefore = r.ledger.newest()
	return nil
}

func (r *reader) get(ctx context.Context) error {
	read := check.Read{Scope: object.ExactKey(object.Key(randomKey(r.rng)))}
	request := &fanoutv1.GetRequest{Resource: resource, Key: string(read.Scope.First()), Consistency: r.asked(&read)}
	answer, err := pick(r.rng, r.clients).Get(ctx, request)
	var page check.Page
	remaining := int64(0) // implied by a Get
	page.Remaining = &remaining
	switch {
	case status.Code(err) == codes.NotFound && reasonOf(err) == "KEY_NOT_FOUND":
		at, err := strconv.ParseInt(infoOf(err).GetMetadata()["revision"], 10, 64)
		if err != nil {
			return fmt.Errorf("revision in KEY_NOT_FOUND: %w", err)
		}
		page.Position = object.Position{Epoch: "that of the others", Revision: object.Revision(at)}
	case err != nil:
		return r.refused(err, &read)
	default:
		o, err := recorded.Object(answer.GetObject())
		if err != nil {
			return err
		}
		page.Position, page.Objects = recorded.Position(answer.GetPosition()), []object.Decoded{o}
	}
	read.Pages = []check.Page{page}
	r.reads = append(r.reads, read)
	return nil
}

func (r *reader) list(ctx context.Context) error {
	wished := pick(r.rng, watchKinds(r.rng, 2*len(selections)))
	scope, err := recorded.Scope(wished.scope)
	if err != nil {
		return err
	}
	read := check.Read{Scope: scope, Picks: wished.selection.picks, Selects: wished.selection.String(), Uncounted: r.uncounted}
	request := &fanoutv1.ListRequest{
		Resource:      resource,
		Scope:         wished.scope,
		Consistency:   r.asked(&read),
		LabelSelector: wished.selection.labels,
		FieldSelector: wished.selection.fields,
	}
	if r.rng.IntN(2) == 0 {
		request.PageSize = int32(1 + r.rng.IntN(60))
	}
	if r.rng.IntN(4) == 0 {
		request.StartKey = randomKey(r.rng)
		read.StartKey = object.Key(request.GetStartKey())
	}
	defer func() { r.reads = append(r.reads, read) }()
	for {
		answer, err := pick(r.rng, r.clients).List(ctx, request)
		if err != nil {
			read.Unfinished = len(read.Pages) > 0
			return r.refused(err, &read)
		}
		page := check.Page{Position: recorded.Position(answer.GetPosition()), Size: int(request.GetPageSize()), Remaining: answer.RemainingCount}
		for _, o := range answer.GetObjects() {
			judged, err := recorded.Object(o)
			if err != nil {
				return err
			}
			page.Objects = append(page.Objects, judged)
		}
		read.Pages = append(read.Pages, page)
		if request.PageToken = answer.GetNextPageToken(); request.PageToken == "" {
			return nil
		}
		request.Consistency = nil
		if r.rng.IntN(10) == 0 {
			read.Unfinished = true
			return nil
		}
	}
}

// refused returns an error if a read must not fail with err.
func (r *reader) refused(err error, read *check.Read) error {
	switch status.Code(err) {
	case codes.Unavailable:
		return nil
	case codes.OutOfRange:
		at := read.Exact
		if len(read.Pages) > 0 {
			at = read.Pages[0].Position.Revision
		}
		// etcd can answer for every revision that is not compacted.
		if at > 0 && at < r.compacted() {
			return nil
		}
		return fmt.Errorf("a read at revision %d failed, etcd was compacted at %d: %w", at, r.compacted(), err)
	}
	return err
}
