package store

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/cluster/manage"
	"github.com/fanoutd/fanoutd/internal/object"
)

// These methods implement [manage.Etcd] with an embedded etcd. With an external one, they fail with
// [object.ErrNotEmbedded].

// Cluster asks all members of the cluster about their state.
func (s *Store) Cluster(ctx context.Context) (c manage.Cluster, err error) {
	err = s.manage(ctx, func() (err error) { c, err = s.member.Cluster(ctx); return err })
	return c, err
}

// Reached returns the other members that a member answers.
func (s *Store) Reached(ctx context.Context, id uint64) (by []uint64) {
	_ = s.manage(ctx, func() error { by = s.member.Reached(ctx, id); return nil })
	return by
}

// RemoveMember lets a member remove another one.
func (s *Store) RemoveMember(ctx context.Context, via, id uint64) error {
	err := s.manage(ctx, func() error { return s.member.RemoveMember(ctx, via, id) })
	if err != nil && s.member != nil && s.member.HasRemoved(id) {
		return nil // a member that is removed may stop before the answer comes
	}
	return err
}

// UpdateMember changes the address at which other members reach a member.
func (s *Store) UpdateMember(ctx context.Context, id uint64, peerURL string) error {
	return s.manage(ctx, func() error { return s.member.UpdateMember(ctx, id, peerURL) })
}

// MoveLeader lets the leader hand over to a member.
func (s *Store) MoveLeader(ctx context.Context, leader, to uint64) error {
	return s.manage(ctx, func() error { return s.member.MoveLeader(ctx, leader, to) })
}

// Defragment defragments the database of a member and returns its sizes.
func (s *Store) Defragment(ctx context.Context, id uint64) (before, after int64, err error) {
	err = s.manage(ctx, func() (err error) { before, after, err = s.member.Defragment(ctx, id); return err })
	return before, after, err
}

// Hash returns the hash of all data of a member.
func (s *Store) Hash(ctx context.Context, id uint64) (h manage.Hash, err error) {
	err = s.manage(ctx, func() (err error) { h, err = s.member.Hash(ctx, id); return err })
	return h, err
}

// Disarm clears an alarm.
func (s *Store) Disarm(ctx context.Context, alarm manage.Alarm) error {
	return s.manage(ctx, func() error { return s.member.Disarm(ctx, alarm) })
}

// Snapshot sends the database of the own member and its hash.
func (s *Store) Snapshot(ctx context.Context, send func(chunk []byte, remaining int64) error) error {
	return s.manage(ctx, func() error { return s.member.Snapshot(ctx, send) })
}

// manage calls a method of the member. What etcd refuses because of the state of the cluster is a
// [manage.UnsafeError].
func (s *Store) manage(ctx context.Context, call func() error) error {
	if s.member == nil {
		return object.ErrNotEmbedded
	}
	err := s.member.During(call)
	if code := codeOf(err); code == codes.FailedPrecondition || errors.Is(err, rpctypes.ErrUnhealthy) {
		return &manage.UnsafeError{Reason: "etcd refuses it: " + status.Convert(err).Message()}
	}
	return classify(ctx, err)
}
