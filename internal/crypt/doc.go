// Package crypt encrypts values before they go to etcd and decrypts what comes from
// there, with the keys of a keyset of Tink. It is the only package that knows Tink.
//
// # What is stored
//
// A value that is encrypted is stored as
//
//	magic (8 bytes) | 0x01 | Tink's prefix (0x01 and the key's id) | nonce | ciphertext | tag
//
// The associated data is the whole key in etcd, so that a value that somebody copies
// to another key does not decrypt there. A value that is not encrypted is stored as it
// is. So that the two are told apart for certain, one that begins with the magic by
// itself is stored as
//
//	magic | 0x00 | value
//
// whether or not there are keys. What other programs write into etcd cannot begin with
// the magic: it would be taken for one of the two.
//
// # Algorithm
//
// New keys are XAES-256-GCM (https://c2sp.org/XAES-256-GCM) with nonces of 192 bits.
// Nonces are random, because servers that share a keyset do not know of each other. With
// the 96 bits of AES-GCM a key must be replaced after 2^32 messages, lest a nonce comes
// twice (NIST SP 800-38D, section 8.3), which is 50 days at 1,000 writes per second;
// with 192 bits 2^80 messages are as safe. Keys of the other kinds that Tink has for
// AEAD are used where a keyset has them.
package crypt
