package store

import (
	"context"
	"fmt"
	"log/slog"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

// spareBytes is how much space there has to be before writes are taken again: for the
// largest request that etcd takes, several times.
const spareBytes = 8 << 20

// makeSpace has an embedded etcd take writes again that ran out of space, if there is
// some by now: the quota was raised, or what was deleted is compacted away and only has
// to be given back. etcd itself leaves both to an operator with etcdctl, who cannot
// reach this one.
func makeSpace(ctx context.Context, etcd *etcdserver.EtcdServer, quota int64, log *slog.Logger) error {
	full, err := etcd.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET, Alarm: pb.AlarmType_NOSPACE})
	if err != nil {
		return fmt.Errorf("ask whether there is space: %w", err)
	}
	if len(full.GetAlarms()) == 0 {
		return nil
	}
	backend := etcd.Backend()
	before := backend.Size()
	if before+spareBytes > quota && backend.SizeInUse()+spareBytes <= quota {
		if err := backend.Defrag(); err != nil {
			return fmt.Errorf("defragment: %w", err)
		}
	}
	if size := backend.Size(); size+spareBytes > quota {
		log.Warn("the embedded etcd is full and refuses writes: delete what is not needed and start again when its history is compacted, or raise its quota",
			"bytes", size, "bytes_in_use", backend.SizeInUse(), "quota", quota)
		return nil
	}
	for _, alarm := range full.GetAlarms() {
		_, err := etcd.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: alarm.GetAlarm(), MemberID: alarm.GetMemberID()})
		if err != nil {
			return fmt.Errorf("take writes again: %w", err)
		}
	}
	log.Info("the embedded etcd was full and takes writes again", "bytes_before", before, "bytes", backend.Size(), "quota", quota)
	return nil
}
