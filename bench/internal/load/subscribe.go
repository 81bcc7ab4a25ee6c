package load

import (
	"fmt"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// subscribeRequest starts a watch on a stream of Subscribe.
func subscribeRequest(c Config, watcher, watch int) ([]byte, error) {
	return proto.Marshal(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Start_{Start: &fanoutv1.SubscribeRequest_Start{
		WatchId: uint64(watch), Request: watchRequest(c, watcher),
	}}})
}

// The fields of SubscribeResponse and of its entries.
const (
	fieldEntries  = 1
	fieldWatchIDs = 1
	fieldResponse = 2
	fieldRefused  = 3
	fieldEnded    = 4
)

// subscribeSplit reads the entries of a SubscribeResponse. It does not decode the responses in
// them. The end of a watch is an error, because watches do not end.
func subscribeSplit(message []byte, do func(watches []uint64, part []byte) error) error {
	return fields(message, func(number protowire.Number, entry []byte) error {
		if number != fieldEntries {
			return nil
		}
		var watches []uint64
		return fields(entry, func(number protowire.Number, value []byte) error {
			switch number {
			case fieldWatchIDs: // they come first
				watches = make([]uint64, 0, len(value))
				for len(value) > 0 {
					id, n := protowire.ConsumeVarint(value)
					if n < 0 {
						return protowire.ParseError(n)
					}
					watches, value = append(watches, id), value[n:]
				}
			case fieldResponse:
				return do(watches, value)
			case fieldRefused, fieldEnded:
				reason := &spb.Status{}
				if err := proto.Unmarshal(value, reason); err != nil {
					return fmt.Errorf("read why watches %d ended: %w", watches, err)
				}
				return fmt.Errorf("watches %d ended: %v", watches, reason)
			}
			return nil
		})
	})
}

// fields calls a function for each field that has a length.
func fields(message []byte, do func(number protowire.Number, value []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(number, kind, message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			if err := do(number, value); err != nil {
				return err
			}
		}
		message = message[size:]
	}
	return nil
}
