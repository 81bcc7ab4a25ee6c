package config

import "github.com/fanoutd/fanoutd/internal/yamlfile"

// Problem is one problem of a configuration. Its origin is the file, a flag or a variable.
type Problem = yamlfile.Problem

// Problems is an error that contains all problems of a configuration.
type Problems = yamlfile.Problems

// ReadFile parses the content of a configuration file on top of the defaults. Name is the name of
// the file in messages. Errors are [Problems]. ReadFile does not validate the values: call
// [Config.Problems], and [yamlfile.File.Locate] with its result.
func ReadFile(name string, data []byte) (Config, *yamlfile.File, error) {
	c, f := Defaults(), yamlfile.Open(name, data)
	if f.Root != nil {
		// A list in the file replaces the default.
		c.Resources = nil
		f.Decode(f.Root, &c)
	}
	if c.Resources == nil {
		c.Resources = Defaults().Resources
	}
	return c, f, f.Err()
}
