// Package app is fanoutd as a whole: its configuration, and the wiring of its
// parts into one thing that runs until it is told to stop.
//
// It reads neither flags nor the environment. [Load] takes what the command
// found there, so that tests and the command enter by the same door.
package app
