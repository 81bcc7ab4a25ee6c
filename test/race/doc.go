// Package race says whether a test is built with the race detector. Then everything
// takes many times as long and as much memory as it does in truth, and what the test
// builds shall have the detector, too.
package race
