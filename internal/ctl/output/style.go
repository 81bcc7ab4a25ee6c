package output

import "github.com/charmbracelet/x/ansi"

// The styles of fanoutctl.
var (
	Plain  = ansi.Style{}
	Bold   = ansi.Style{}.Bold()
	Faint  = ansi.Style{}.Faint()
	Good   = ansi.Style{}.ForegroundColor(ansi.Green)
	Notice = ansi.Style{}.ForegroundColor(ansi.Yellow)
	Bad    = ansi.Style{}.ForegroundColor(ansi.Red)
	Name   = ansi.Style{}.ForegroundColor(ansi.Cyan)
)
