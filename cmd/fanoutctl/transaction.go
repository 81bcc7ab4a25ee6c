package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

// rollback and copy make all their changes in one transaction. With --batches, they make those that do not fit into one
// in several.

// maxMessageBytes is the longest message of a write that servers accept.
const maxMessageBytes = 1024

// The limits of a transaction. A server or an external etcd may have others.
const (
	transactionOps   = 128                    // a server's default
	batchBytes       = 1536 << 10             // etcd's default
	transactionBytes = 2*batchBytes + 256<<10 // that of an embedded etcd which keeps histories
)

// tooMuch returns an error if writes do not fit into one transaction.
func tooMuch(writes []transfer.Write) error {
	bytes := 0
	for _, w := range writes {
		bytes += w.Bytes
	}
	if len(writes) <= transactionOps && bytes <= transactionBytes {
		return nil
	}
	return usagef("%s with %s do not fit into one transaction: add --batches to make them in several",
		english.Plural(len(writes), "change", ""), humanize.IBytes(uint64(bytes)))
}

// nextBatch returns the first writes that fit into a transaction, at most so many. It returns at least one.
func nextBatch(writes []transfer.Write, most int) []transfer.Write {
	n, bytes := 0, 0
	for n < min(len(writes), most) {
		if bytes += writes[n].Bytes; n > 0 && bytes > batchBytes {
			break
		}
		n++
	}
	return writes[:n]
}

// partlyWritten is the error of a transaction after others were made.
type partlyWritten struct {
	done, of int
	error
}

func (e partlyWritten) Error() string {
	return fmt.Sprintf("%d of %d changes were made: %v", e.done, e.of, e.error)
}

func (e partlyWritten) Unwrap() error { return e.error }

// writeAll makes the writes in one transaction, or in several if it may split them. It prints the revision of each.
func (t *tool) writeAll(ctx context.Context, r *client.Resource, writes []transfer.Write, splits bool) error {
	most := transactionOps
	for done := 0; done < len(writes); {
		batch := writes[done:]
		if splits {
			batch = nextBatch(batch, most)
		}
		ops := make([]client.Op, len(batch))
		for i, w := range batch {
			ops[i] = w.Op
		}
		call, cancel := t.withTimeout(ctx, requestTimeout)
		transaction, err := r.Transact(call, ops...)
		cancel()
		tooLarge := errors.Is(err, client.ErrWriteTooLarge) || errors.Is(err, client.ErrRequestTooLarge)
		switch {
		case tooLarge && splits && len(batch) > 1:
			most = len(batch) / 2 // nothing was written
			continue
		case tooLarge && len(batch) > 1:
			return exitError{exitUsage, fmt.Errorf("the changes do not fit into one transaction: %w; add --batches to make them in several", err)}
		case err != nil && done > 0:
			return partlyWritten{done, len(writes), err}
		case err != nil:
			return err
		}
		done += len(batch)
		fmt.Fprintln(t.out, transaction.Revision)
	}
	return nil
}
