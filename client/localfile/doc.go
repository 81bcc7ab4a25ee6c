// Package localfile replaces files for the client and for the programs of this module: state that is
// saved, contexts, rendered files and exports. It is not meant for other programs, and may change.
//
// A file is replaced as a whole, so that a crash leaves the old content or the new one. Only regular
// files are replaced: a rename would turn a device such as /dev/null into a file. See [Check].
package localfile
