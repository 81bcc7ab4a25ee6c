// Package certs makes the certificates of a cluster's members, and reads them.
//
// The members of a cluster trust each other completely: each can write to all data. So a cluster has
// an authority of its own, which signs for its members and for nothing else. A member has one
// certificate for etcd's peer port and client port, and uses it as a server and as a client.
//
// [Directory] is the folder of the operator, with the authority's key and a folder for each member.
// [Files] are the three files of one member, as its server reads them. [Read] checks them and
// says when they expire.
//
// # Names
//
// etcd's defaults suit members whose addresses never change. A member that connects to another one
// compares the certificate with the host in the peer URL. The member that is called looks up the DNS
// names of the caller's certificate, forwards and backwards, and refuses a caller whose address is
// not among the answers. A pod that has just got a new address, and a host behind NAT, fail
// there. Therefore each certificate of an [Authority] also contains [MemberName], and members
// verify that name instead of hosts and addresses. [Status.Verification] says what a member has to
// verify, and what etcd has to be set to. The hosts are in the certificate, too, because etcdctl and an
// etcd outside of fanoutd verify hosts.
//
// # Renewal
//
// etcd reads a member's certificate and key for each handshake, so new files need no restart.
// It reads the authorities only when it starts. That is why a renewal of the authority has an overlap,
// during which members may restart in any order:
//
//	ca.pem    contains the new authority and the old one: a restarted member accepts both
//	cert.pem  is signed by the new authority, and followed by a certificate of the new authority
//	          that the old one has signed: a member that has not restarted accepts it, too
//
// The overlap ends when the old authority expires, or with [Directory.EndOverlap].
package certs
