package wire

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers of fanout.v1.SubscribeResponse.
const (
	subscribeEntries protowire.Number = 1
	subscribeMore    protowire.Number = 2
	entryWatchIDs    protowire.Number = 1
)

// EntryContent is what an entry of a SubscribeResponse has for its watches. The numbers are
// those of the fields of SubscribeResponse.Entry.
type EntryContent protowire.Number

// The contents of entries.
const (
	EntryResponse EntryContent = 2 // a WatchResponse
	EntryRefused  EntryContent = 3 // a google.rpc.Status
	EntryEnded    EntryContent = 4 // a google.rpc.Status
)

// AppendWatchIDs appends the ids of watches as the field watch_ids of an entry. There must be
// at least one id.
func AppendWatchIDs(b []byte, ids ...uint64) []byte {
	size := 0
	for _, id := range ids {
		size += protowire.SizeVarint(id)
	}
	b = appendMessageHead(b, entryWatchIDs, size)
	for _, id := range ids {
		b = protowire.AppendVarint(b, id)
	}
	return b
}

// AppendEntryHead appends the beginning of an entry of a SubscribeResponse. The argument ids is
// the result of [AppendWatchIDs]. The caller appends the content, which is an encoded message
// of the given size. A SubscribeResponse is a concatenation of entries and, if there is one,
// the result of [AppendMore].
func AppendEntryHead(b, ids []byte, content EntryContent, size int) []byte {
	field := protowire.Number(content)
	b = appendMessageHead(b, subscribeEntries, len(ids)+sizeText(field, size))
	b = append(b, ids...)
	return appendMessageHead(b, field, size)
}

// AppendMore appends the field more of a SubscribeResponse.
func AppendMore(b []byte) []byte {
	return appendNumber(b, subscribeMore, 1)
}
