// Package crypt encrypts values before they are stored in etcd, and decrypts them when they
// are read. It is the only package that uses Tink.
//
// A [Keyring] holds the keys in use. [Keyring.Use] replaces them at any time, for example
// when the keyset file changes. [Values] is the cipher of one resource. The functions
// [Create], [Add], [Promote] and [Remove] edit the content of a keyset file.
//
// # Stored form
//
// An encrypted value is stored as
//
//	magic (8 bytes) | 0x01 | Tink's prefix (0x01 and the key id) | nonce | ciphertext | tag
//
// The associated data is the complete etcd key, so a value that was copied to another key
// does not decrypt there. An unencrypted value is stored unchanged. If it happens to start
// with the magic, it is stored as
//
//	magic | 0x00 | value
//
// with or without encryption keys, so that both forms can be distinguished reliably.
// Values that other programs write to etcd must not start with the magic.
//
// # Algorithm
//
// New keys use XAES-256-GCM (https://c2sp.org/XAES-256-GCM) with nonces of 192 bits. Nonces
// are random because servers that share a keyset do not coordinate. With the 96-bit nonces
// of AES-GCM, a key must be replaced after 2^32 messages to keep the risk of a repeated
// nonce low (NIST SP 800-38D, section 8.3). That is 50 days at 1,000 writes per second. With
// 192 bits, 2^80 messages are equally safe. A keyset may also contain other AEAD keys of
// Tink.
package crypt
